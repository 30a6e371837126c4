#!/usr/bin/env bash
# Redis from Debian, append-only file.
#   redis.sh install | run DATADIR PORT | start DATADIR [PORT=16379] | stop|kill|stats DATADIR
. "$(dirname "$0")/lib.sh"
install() { apt_need redis-server redis-server redis-tools; }
run() { serve "$1" redis-server --port "$2" --bind 127.0.0.1 --dir "$1" --appendonly yes --appendfsync everysec --save '' --daemonize no ${REDIS_EXTRA:-}; }
pong() { redis-cli -h 127.0.0.1 -p "$1" ping | grep -q PONG; }
case ${1:-help} in
  install) install;;
  run) install; run "$(absdir "$2")" "$3";;
  start) D=$(absdir "$2"); P=${3:-16379}; install
    if ! pid_alive "$D/pid"; then
      need_free "$P"; : >"$D/log"
      start_bg "$D" bash "$SVC_ROOT/redis.sh" run "$D" "$P"
      wait_ready "$D" "${WAIT:-15}" pong "$P"
    fi
    echo "redis://127.0.0.1:$P";;
  stop) stop_pidfile "$2" 15;;
  kill) stop_pidfile "$2" 5 KILL;;
  stats) stats "$2";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
