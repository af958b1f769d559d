# SPDX-License-Identifier: MIT
# A stand-in ssh: each host is a simulated node of this machine, or misbehaves as its name says.

fleet_setup() {
        FLEET="$BATS_TEST_TMPDIR/fleet"
        mkdir -p "$FLEET/bin" "$FLEET/hosts"
        export FLEET GPUFREE
        cat >"$FLEET/bin/ssh" <<'STUB'
#!/bin/sh
printf '%s\n' "$*" >>"$FLEET/log"
while [ "$1" != -- ]; do shift; done
host=$2
line=$3
case $host in
refuse*) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255 ;;
denied*) echo "$host: Permission denied (publickey)." >&2; exit 255 ;;
hang*) trap '' HUP; sleep 300 & echo $! >>"$FLEET/sleepers"; wait ;;
garbage*) printf '\033[31m{"schema": 1\n'; exit 0 ;;
huge*) exec yes '{"schema": 1}' ;;
newer*) echo '{"schema": 2, "command": "list", "outcome": "ok", "exit": {"code": 0}}'; exit 0 ;;
bare*) exec env PATH=/nonexistent /bin/sh -c "$line" ;;
*) PATH="$FLEET/hosts/$host:$PATH" exec /bin/sh -c "$line" ;;
esac
STUB
        chmod +x "$FLEET/bin/ssh"
        export PATH="$FLEET/bin:$PATH"
}

# fleet_host HOST [OPTIONS]: a host with a node of its own; afterwards $NODE is this one's.
fleet_host() {
        local host="$1" settings
        shift
        NODE="$FLEET/node-$host"
        settings="$("$SIM" up "$NODE" "$@")" || return 1
        echo "$NODE" >>"$FLEET/nodes"
        mkdir -p "$FLEET/hosts/$host"
        {
                echo '#!/bin/sh'
                echo "$settings"
                echo "exec '$GPUFREE' \$GPUFREE_OPTS --scope namespace \"\$@\""
        } >"$FLEET/hosts/$host/gpufree"
        chmod +x "$FLEET/hosts/$host/gpufree"
}

fleet_teardown() {
        local node
        [ ! -e "$FLEET/nodes" ] || while read -r node; do "$SIM" down "$node"; done <"$FLEET/nodes"
}

away() {
        "$GPUFREE" "$@"
}
