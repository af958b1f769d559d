# SPDX-License-Identifier: MIT
"""Reads Prometheus' text format from standard input, strictly, and prints one "name{labels} value" a sample.

prom_check.py [NAME [LABEL=VALUE...]]: only the values of these samples. Fails on whatever a scraper, or a reader of the
metrics, would stumble over.
"""
import re
import sys

NAME = r'[a-z][a-z0-9_]*'
LABEL = re.compile(r'(%s)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,(?=%s=)|$)' % (NAME, NAME))
SAMPLE = re.compile(r'(%s)(?:\{(.+)\})? (\d+(?:\.\d+)?)$' % NAME)


def labels_of(text):
    labels, at = {}, 0
    while text and at < len(text):
        found = LABEL.match(text, at)
        assert found, f'labels: {text[at:]!r}'
        assert found[1] not in labels, f'label twice: {found[1]}'
        labels[found[1]] = re.sub(r'\\(.)', lambda m: '\n' if m[1] == 'n' else m[1], found[2])
        at = found.end()
    return labels


def read(data):
    text = data.decode('utf-8')  # strictly: Prometheus refuses what is none
    assert text.endswith('\n'), 'no newline at the end'
    helped, typed, seen, samples, family = set(), set(), set(), [], None
    for line in text[:-1].split('\n'):
        comment = re.fullmatch(r'# (HELP|TYPE) (%s) (\S.*)' % NAME, line)
        if comment:
            kind, name, rest = comment.groups()
            known = helped if kind == 'HELP' else typed
            assert name not in known, f'{kind} twice: {name}'
            known.add(name)
            if kind == 'HELP':
                assert family is None or any(s[0] == family for s in samples), f'no sample of {family}'
                family = name
            else:
                assert name == family and rest == 'gauge', line
            continue
        found = SAMPLE.fullmatch(line)
        assert found, f'no sample: {line!r}'
        name, labels, value = found[1], labels_of(found[2]), float(found[3])
        assert name == family and name in typed, f'{name} outside of its family'
        assert name.startswith('gpufree_'), name
        assert ('memory' in name) == name.endswith('_bytes'), name
        key = (name, tuple(sorted(labels.items())))
        assert key not in seen, f'twice: {line}'
        seen.add(key)
        samples.append((name, labels, value))
    assert helped == typed, helped ^ typed
    return samples


def main():
    samples = read(sys.stdin.buffer.read())
    wanted = dict(word.split('=', 1) for word in sys.argv[2:])
    for name, labels, value in samples:
        if len(sys.argv) == 1:
            print(f'{name}{labels} {value:.15g}')
        elif name == sys.argv[1] and all(labels.get(k) == v for k, v in wanted.items()):
            print(f'{value:.15g}')


main()
