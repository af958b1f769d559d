#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the subtests of a `meson test` run: count.py testlog.json

Shows the output of what failed. The last line is "N passed, N failed[, N skipped]"; exit 1 when something failed.
A program that speaks no TAP is one test; one that crashed, or ran out of time, after good subtests is one failure.
"""
import json
import re
import sys

RESULT = re.compile(r'^\s*(not )?ok\b', re.IGNORECASE)
DIRECTIVE = re.compile(r'(?<!\\)#\s*(skip|todo)\b', re.IGNORECASE)


def count(test):
    """(passed, failed, skipped) of one test program"""
    passed = failed = skipped = 0
    for line in test.get('stdout', '').splitlines():
        match = RESULT.match(line)
        if not match:
            continue
        bad, directive = match.group(1), DIRECTIVE.search(line)
        if directive and directive.group(1).lower() == 'skip':
            skipped += 1
        elif bad and not directive:
            failed += 1
        else:
            passed += 1
    result = test['result']
    if result in ('OK', 'EXPECTEDFAIL'):
        if not passed and not skipped:
            passed = 1
    elif result == 'SKIP':
        if not passed and not skipped:
            skipped = 1
    elif not failed:
        failed = 1
    return passed, failed, skipped


def main():
    with open(sys.argv[1], encoding='utf-8', errors='replace') as log:
        tests = [json.loads(line) for line in log if line.strip()]
    total = [0, 0, 0]
    for test in tests:
        counts = count(test)
        total = [a + b for a, b in zip(total, counts)]
        if not counts[1]:
            continue
        print('\n---- {} ({}): {} failed'.format(test['name'], test['result'], counts[1]))
        for stream in ('stdout', 'stderr'):
            text = test.get(stream, '')
            if stream == 'stdout':
                text = '\n'.join(l for l in text.splitlines() if not re.match(r'^\s*ok\b', l))
            if text.strip():
                print(text.rstrip()[-20000:])
    if not tests:
        print('no test was run')
        return 1
    line = '{} passed, {} failed'.format(total[0], total[1])
    print('\n' + line + (', {} skipped'.format(total[2]) if total[2] else ''))
    return 1 if total[1] else 0


sys.exit(main())
