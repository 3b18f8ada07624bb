# Read by the scripts beside it: runs named parts of a measurement, each with a time limit and a log in $out.
# They set $out first, and exit with $status, which is 1 if a part failed.
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
unset TRITON_INTERPRET
status=0

part() {  # name, seconds, command ...
    local name=$1 limit=$2 began=$SECONDS code
    shift 2
    timeout "$limit" "$@" >"$out/$name.log" 2>&1
    code=$?
    [ $code -eq 0 ] || status=1
    echo "== $name: exit $code after $((SECONDS - began)) s"
    tail -n 40 "$out/$name.log"
}
