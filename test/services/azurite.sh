#!/usr/bin/env bash
# Azurite: Azure's blob service on files. Account devstoreaccount1, with the key that its makers publish.
#   azurite.sh install | run DATADIR PORT | start DATADIR [PORT=20000] | stop|kill|stats DATADIR
# It writes its tables of blobs every 5 s and when it ends orderly: SIGKILL loses what came since.
. "$(dirname "$0")/lib.sh"
V=${AZURITE_VERSION:-3.37.0}; H=$SVC_OPT/azurite-$V
packages() {
  [ ! -f "$H/.done" ] || return 0
  log "installing azurite $V"
  rm -rf "$H"; mkdir -p "$H"
  # Without the optional ones: native add-ons that only a store outside of files needs.
  (cd "$H" && nice npm install --no-audit --no-fund --omit=dev --omit=optional --ignore-scripts --loglevel=error --prefix "$H" "azurite@$V") >&2
  touch "$H/.done"
}
install() { apt_need node nodejs; [ -f "$H/.done" ] || apt_need npm npm; locked azurite packages; }
run() { # DATADIR PORT
  serve "$1" node "$H/node_modules/azurite/dist/src/blob/main.js" --blobHost 127.0.0.1 --blobPort "$2" --location "$1/db" \
    --silent --skipApiVersionCheck --disableTelemetry ${AZURITE_EXTRA:-}
}
case ${1:-help} in
  install) install;;
  run) install; run "$(absdir "$2")" "$3";;
  start) D=$(absdir "$2"); P=${3:-20000}; install
    if ! pid_alive "$D/pid"; then
      need_free "$P"; : >"$D/log"
      start_bg "$D" bash "$SVC_ROOT/azurite.sh" run "$D" "$P"
      wait_ready "$D" "${WAIT:-30}" tcp_open 127.0.0.1 "$P"
    fi
    echo "http://127.0.0.1:$P/devstoreaccount1";;
  stop) stop_pidfile "$2" 15;;
  kill) stop_pidfile "$2" 5 KILL;;
  stats) stats "$2";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
