#!/usr/bin/env bash
# OpenSearch from its jars with a small main of ours: one node, no security plugin.
#   opensearch.sh install | run DATADIR PORT | start DATADIR [PORT=19200] | stop|kill|stats DATADIR
. "$(dirname "$0")/lib.sh"
V=${OPENSEARCH_VERSION:-2.19.6}; H=$SVC_OPT/opensearch-$V
build() {
  mvn_need "$SVC_ROOT/opensearch/pom.xml" "$H" -Dos.version="$V"
  [ ! -f "$H/classes/OsNode.class" ] || return 0
  mkdir -p "$H/classes"; javac -cp "$H/libs/*" -d "$H/classes" "$SVC_ROOT/opensearch/src/OsNode.java" >&2
}
install() { apt_need javac default-jdk-headless; apt_need mvn maven; apt_need curl curl; locked opensearch build; }
run() { # DATADIR PORT
  serve "$1" java ${OPENSEARCH_HEAP:--Xms256m -Xmx512m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true \
    --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
    -Dopensearch.networkaddress.cache.ttl=60 -Dio.netty.noUnsafe=true -Dio.netty.noKeySetOptimization=true -Dlog4j2.disable.jmx=true \
    -Dlog4j2.configurationFile="$SVC_ROOT/kafka/log4j2.properties" -cp "$H/classes:$H/libs/*" OsNode "$1/home" "$2"
}
green() { curl -fsS -m 2 "http://127.0.0.1:$1/_cluster/health" | grep -qE '"status":"(green|yellow)"'; }
case ${1:-help} in
  install) install;;
  run) install; run "$(absdir "$2")" "$3";;
  start) D=$(absdir "$2"); P=${3:-19200}; install
    if ! pid_alive "$D/pid"; then
      need_free "$P"; : >"$D/log"
      start_bg "$D" bash "$SVC_ROOT/opensearch.sh" run "$D" "$P"
      wait_ready "$D" "${WAIT:-90}" green "$P"
    fi
    echo "http://127.0.0.1:$P";;
  stop) stop_pidfile "$2" 20;;
  kill) stop_pidfile "$2" 5 KILL;;
  stats) stats "$2";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
