# SPDX-License-Identifier: MIT
# fish completion for gpufree
set -l commands list kill check wait explain park unpark help
set -l none "not __fish_seen_subcommand_from $commands"
set -l scan "not __fish_seen_subcommand_from unpark help"
set -l look "not __fish_seen_subcommand_from help"
set -l ending "__fish_seen_subcommand_from kill"
set -l planning "__fish_seen_subcommand_from kill park"
set -l waiting "__fish_seen_subcommand_from kill wait park unpark"

complete -c gpufree -n $none -a list -d 'who holds each GPU'
complete -c gpufree -n $none -a kill -d 'end the selected holders, prove the memory came back'
complete -c gpufree -n $none -a check -d 'exit status: free or not'
complete -c gpufree -n $none -a wait -d 'wait until the selected GPUs are free'
complete -c gpufree -n $none -a explain -d 'every MiB of a GPU, or why a process does not let go'
complete -c gpufree -n $none -a park -d 'take their memory off the GPU without ending them'
complete -c gpufree -n $none -a unpark -d 'bring parked processes back'
complete -c gpufree -n $none -a help -d 'the overview, or the help of one command'
complete -c gpufree -n '__fish_seen_subcommand_from help' -f -a 'list kill check wait explain park unpark help'

complete -c gpufree -l color -x -a 'auto always never' -d 'colours'
complete -c gpufree -s h -l help -d 'help, also for one command'
complete -c gpufree -s V -l version -d 'the version'

complete -c gpufree -n $scan -l gpu -x -a all -d 'GPUs: index, UUID, PCI address, MIG UUID, all'
complete -c gpufree -n $scan -l pid -x -a '(gpufree list --quiet 2>/dev/null)' -d 'these processes'
complete -c gpufree -n $scan -l user -x -a '(__fish_complete_users)' -d 'processes of these users'
complete -c gpufree -n $scan -l container -x -d 'in this container'
complete -c gpufree -n $scan -l unit -x -d 'of this systemd unit'
complete -c gpufree -n $scan -l job -x -d 'of this batch job'
complete -c gpufree -n $scan -l session -x -d 'of this login session'
complete -c gpufree -n $scan -l match -x -d 'command line matches'
complete -c gpufree -n $scan -l older-than -x -a '10s 2m 8h' -d 'started longer ago than this'
complete -c gpufree -n $scan -l vendor -x -a 'nvidia amd intel' -d 'holders of this vendor\'s GPUs'
complete -c gpufree -n $scan -l orphans -d 'whose parent is gone'
complete -c gpufree -n $scan -l stopped -d 'that are stopped'
complete -c gpufree -n $scan -l any-open -d 'also those that merely have a GPU device open'
complete -c gpufree -n $look -l config -r -F -d 'protections, not of /etc/gpufree.conf'
complete -c gpufree -n $look -l dev-root -x -a '(__fish_complete_directories)' -d 'look for device nodes here'
complete -c gpufree -n $look -l scan -x -a 'auto bpf proc' -d 'how to look'
complete -c gpufree -n $look -l scope -x -a 'machine namespace' -d 'what free is about'
complete -c gpufree -n $look -l json -d 'one JSON document'
complete -c gpufree -n $look -s q -l quiet -d 'PIDs alone'
complete -c gpufree -n 'not __fish_seen_subcommand_from kill check wait explain park unpark help' -l sample -x -a '2s' -d 'watch how busy each holder is'

complete -c gpufree -n $planning -s n -l dry-run -d 'show the plan, do nothing'
complete -c gpufree -n $ending -s y -l yes -d 'do not ask'
complete -c gpufree -n $ending -l signal -x -a 'TERM INT HUP QUIT KILL USR1 USR2' -d 'the first signal'
complete -c gpufree -n $ending -l grace -x -a '10s' -d 'from it to SIGKILL'
complete -c gpufree -n $ending -s 9 -l force -d 'SIGKILL at once'
complete -c gpufree -n $planning -l include -x -d 'lift the protection of this one'
complete -c gpufree -n $ending -l stop-owner -d 'first the command of its owner'
complete -c gpufree -n $waiting -l timeout -x -a '60s' -d 'for the whole'
complete -c gpufree -n $waiting -l settle -x -a '5s' -d 'how long memory may take to come back'
complete -c gpufree -n '__fish_seen_subcommand_from park unpark' -l continue -d 'let a stopped process go on first'
complete -c gpufree -n '__fish_seen_subcommand_from unpark' -l all -d 'every parked process that a record tells of'
complete -c gpufree -n '__fish_seen_subcommand_from unpark' -l to -x -d 'to this GPU, or each to another'
complete -c gpufree -n '__fish_seen_subcommand_from list' -l by -x -a owner -d 'a line for each owner'
complete -c gpufree -n '__fish_seen_subcommand_from check' -l for -x -a 'run reset mig unload unbind' -d 'free for what'
