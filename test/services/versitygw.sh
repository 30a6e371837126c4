#!/usr/bin/env bash
# versitygw: S3 over a folder, built from its Go module. Keys: exactly / exactly-secret.
#   versitygw.sh install | run DATADIR PORT | start DATADIR [PORT=17070] | stop|kill|stats DATADIR
. "$(dirname "$0")/lib.sh"
V=${VERSITYGW_VERSION:-v1.8.0}
install() { locked versitygw go_need versitygw "github.com/versity/versitygw/cmd/versitygw@$V"; }
run() { # DATADIR PORT; ETags and the like are kept in extended attributes (user.*): ext4 and xfs have them
  mkdir -p "$1/db" "$1/iam"
  export ROOT_ACCESS_KEY=exactly ROOT_SECRET_KEY=exactly-secret
  serve "$1" "$SVC_OPT/gobin/versitygw" --port "127.0.0.1:$2" --region us-east-1 --iam-dir "$1/iam" --quiet ${VGW_EXTRA:-} posix "$1/db"
}
case ${1:-help} in
  install) install;;
  run) install; run "$(absdir "$2")" "$3";;
  start) D=$(absdir "$2"); P=${3:-17070}; install
    if ! pid_alive "$D/pid"; then
      need_free "$P"; : >"$D/log"
      start_bg "$D" bash "$SVC_ROOT/versitygw.sh" run "$D" "$P"
      wait_ready "$D" "${WAIT:-15}" tcp_open 127.0.0.1 "$P"
    fi
    echo "http://127.0.0.1:$P";;
  stop) stop_pidfile "$2" 15;;
  kill) stop_pidfile "$2" 5 KILL;;
  stats) stats "$2";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
