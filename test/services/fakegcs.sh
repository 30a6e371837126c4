#!/usr/bin/env bash
# fake-gcs-server: the JSON API of Google Cloud Storage over a folder, built from its Go module. Nobody has to log in.
#   fakegcs.sh install | run DATADIR PORT | start DATADIR [PORT=14443] | stop|kill|stats DATADIR
. "$(dirname "$0")/lib.sh"
V=${FAKEGCS_VERSION:-v1.56.1}
install() { locked fake-gcs-server go_need fake-gcs-server "github.com/fsouza/fake-gcs-server@$V"; }
run() { # DATADIR PORT
  mkdir -p "$1/db"
  serve "$1" "$SVC_OPT/gobin/fake-gcs-server" -scheme http -host 127.0.0.1 -port "$2" -backend filesystem -filesystem-root "$1/db" \
    -external-url "http://127.0.0.1:$2" -public-host "127.0.0.1:$2" -log-level warn ${FAKEGCS_EXTRA:-}
}
case ${1:-help} in
  install) install;;
  run) install; run "$(absdir "$2")" "$3";;
  start) D=$(absdir "$2"); P=${3:-14443}; install
    if ! pid_alive "$D/pid"; then
      need_free "$P"; : >"$D/log"
      start_bg "$D" bash "$SVC_ROOT/fakegcs.sh" run "$D" "$P"
      wait_ready "$D" "${WAIT:-15}" tcp_open 127.0.0.1 "$P"
    fi
    echo "http://127.0.0.1:$P";;
  stop) stop_pidfile "$2" 15;;
  kill) stop_pidfile "$2" 5 KILL;;
  stats) stats "$2";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
