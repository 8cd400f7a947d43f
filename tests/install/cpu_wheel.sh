#!/bin/sh
# cpu_wheel.sh SCRIPT WORK: packaging/cpu_wheel.sh picks of what pip says; nothing, and no failure, where pip reaches no CPU wheel.
set -e
script=$1 work=$2
mkdir -p "$work"
told() { # told WHAT-PIP-SAYS EXPECTED
  printf '#!/bin/sh\n%s\n' "$1" >"$work/python"
  chmod +x "$work/python"
  got=$("$script" "$work/python") || { echo "cpu_wheel.sh fails where pip does this: $1"; exit 1; }
  [ "$got" = "$2" ] || { echo "cpu_wheel.sh gives '$got' instead of '$2' where pip does this: $1"; exit 1; }
}
told 'echo "Available versions: 2.13.0, 2.12.1+cpu, 2.13.0+cpu, 2.9.1+cpu"' torch==2.13.0+cpu
told 'echo "Available versions: 99.0.0+cpu, 2.11.0+cpu"' torch==2.11.0+cpu
told 'echo "Available versions: 2.13.0, 2.12.1"' ''
told 'echo "Available versions: 2.9.1+cpu"' ''
told 'exit 1' ''
