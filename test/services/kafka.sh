#!/usr/bin/env bash
# Apache Kafka in KRaft mode, combined nodes.
#   kafka.sh install                                jars into the cache folder, and a class-data archive
#   kafka.sh prepare DATADIR                        configure and format the nodes listed in DATADIR/nodes
#   kafka.sh run DATADIR ID                         one node in the foreground
#   kafka.sh start DATADIR [NODES=1] [BASEPORT=19092]   prints the bootstrap servers
#   kafka.sh stop|stats DATADIR                     all nodes
#   kafka.sh start-node|stop-node|kill-node DATADIR ID
#   kafka.sh tool CLASS ARGS...                     e.g. org.apache.kafka.tools.FeatureCommand
# DATADIR/nodes has a line "ID PORT CONTROLLERPORT TLSPORT" per node; `start` writes it from BASEPORT.
# DATADIR/format.args and DATADIR/extra.properties, where they exist, are added to the format command and
# to every node's settings. DATADIR/security (written by internal/services) makes every listener a secured
# one: PORT is then SASL_SSL with SCRAM and a client certificate, TLSPORT a client certificate alone.
. "$(dirname "$0")/lib.sh"
V=${KAFKA_VERSION:-4.4.0}; H=$SVC_OPT/kafka-$V
HEAP=${KAFKA_HEAP:--Xms64m -Xmx256m}
JVM=${KAFKA_JVM:--XX:+UseSerialGC -XX:TieredStopAtLevel=1}   # C1 only: faster start, less memory
JOPT="$JVM -Djava.awt.headless=true"
LOG4J="-Dlog4j2.configurationFile=$SVC_ROOT/kafka/log4j2.properties"

java_() { # JAVA-ARGS...: replaces this shell
  local cds=; [ ! -f "$H/kafka.jsa" ] || cds=-XX:SharedArchiveFile=$H/kafka.jsa
  exec $NICE java $cds $JOPT $LOG4J -cp "$H/libs/*" "$@"
}

# The archive is written by one throw-away node; it halves the CPU of every later start. It holds for
# one JDK and one set of jars: java ignores it otherwise.
archive() {
  [ ! -f "$H/kafka.jsa" ] || return 0
  local d; d=$(mktemp -d)
  log "writing the class-data archive of Kafka"
  if (KAFKA_HEAP="$HEAP -XX:ArchiveClassesAtExit=$H/kafka.jsa.tmp"; write_archive "$d" "$KAFKA_HEAP"); then
    mv "$H/kafka.jsa.tmp" "$H/kafka.jsa"
  else
    log "no class-data archive: starts are slower"   # not needed to be right
  fi
  rm -rf "$d"
}
write_archive() {
  local d=$1 base; HEAP=$2
  for base in 19890 18890 17890; do tcp_open 127.0.0.1 "$base" || break; done
  STOPWAIT=60
  start "$d" 1 "$base" >/dev/null && stop "$d" && [ -s "$H/kafka.jsa.tmp" ]
}

jars() { mvn_need "$SVC_ROOT/kafka/pom.xml" "$H" -Dkafka.version="$V"; }
install() {
  apt_need java default-jre-headless
  apt_need mvn maven
  locked kafka jars
  locked kafka archive
}

listeners() { # DATADIR PORT CONTROLLERPORT TLSPORT
  local d=$1 port=$2 cport=$3 tls=$4
  if [ ! -d "$d/security" ]; then cat <<P
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$cport
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
P
  return; fi
  cat <<P
listeners=SASL_SSL://127.0.0.1:$port,SSL://127.0.0.1:$tls,CONTROLLER://127.0.0.1:$cport
advertised.listeners=SASL_SSL://127.0.0.1:$port,SSL://127.0.0.1:$tls
listener.security.protocol.map=SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SSL
inter.broker.listener.name=SSL
sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.ssl.client.auth=required
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location=$d/security/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=$d/security/ca.pem
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*\$/\$1/,DEFAULT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:broker;User:admin
allow.everyone.if.no.acl.found=false
P
}

conf() { # DATADIR ID PORT CONTROLLERPORT TLSPORT
  local d=$1 id=$2 n rf isr voters
  n=$(wc -l <"$d/nodes")
  rf=$(( n<3 ? n : 3 )); isr=$(( n<3 ? 1 : 2 ))
  voters=$(awk '{printf "%s%s@127.0.0.1:%s", s, $1, $3; s=","}' "$d/nodes")
  mkdir -p "$d/n$id"
  { cat <<P
process.roles=broker,controller
node.id=$id
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
log.dirs=$d/n$id/data
num.partitions=3
default.replication.factor=$rf
min.insync.replicas=$isr
offsets.topic.replication.factor=$rf
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=$rf
transaction.state.log.min.isr=$isr
transaction.state.log.num.partitions=3
share.coordinator.state.topic.replication.factor=$rf
share.coordinator.state.topic.min.isr=$isr
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=4
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
log.cleaner.dedupe.buffer.size=4194304
auto.create.topics.enable=false
P
    listeners "$d" "$3" "$4" "$5"
    [ ! -f "$d/extra.properties" ] || cat "$d/extra.properties"
  } >"$d/n$id/server.properties"
}

format() { # DATADIR ID
  local d=$1 id=$2
  [ ! -f "$d/n$id/data/meta.properties" ] || return 0
  # shellcheck disable=SC2046
  (java_ -Xmx96m kafka.tools.StorageTool format -t "$(cat "$d/cluster")" -c "$d/n$id/server.properties" \
     $(cat "$d/format.args" 2>/dev/null)) >"$d/n$id/format.log" 2>&1 || { cat "$d/n$id/format.log" >&2; die "formatting node $id failed"; }
}

prepare() { # DATADIR
  local d=$1 id port cport tls pids=() p
  [ -s "$d/nodes" ] || die "$d/nodes is missing: it lists the nodes"
  # An id that begins with a dash would be taken for an option.
  [ -s "$d/cluster" ] || head -c16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n' | sed 's/^-/A/' >"$d/cluster"
  while read -r id port cport tls; do
    conf "$d" "$id" "$port" "$cport" "$tls"
    format "$d" "$id" & pids+=($!)
  done <"$d/nodes"
  for p in "${pids[@]}"; do wait "$p"; done
}

run_node() { java_ $HEAP kafka.Kafka "$1/n$2/server.properties"; }   # DATADIR ID
node_up() { grep -q 'Kafka Server started' "$1/log"; }
start_node() { # DATADIR ID
  local d=$1 id=$2 n=$1/n$2
  ! pid_alive "$n/pid" || return 0
  # shellcheck disable=SC2046
  need_free $(awk -v id="$id" '$1==id{print $2, $3}' "$d/nodes")
  : >"$n/log"
  start_bg "$n" env NICE="$NICE" KAFKA_HEAP="$HEAP" KAFKA_JVM="$JVM" bash "$SVC_ROOT/kafka.sh" run "$d" "$id"
}
start() { # DATADIR NODES BASEPORT
  local d=$1 n=$2 base=$3 i
  [ -s "$d/nodes" ] || for i in $(seq 0 $((n-1))); do echo "$((i+1)) $((base+i)) $((base+100+i)) $((base+200+i))"; done >"$d/nodes"
  prepare "$d"
  for i in $(cut -d' ' -f1 "$d/nodes"); do start_node "$d" "$i"; done
  for i in $(cut -d' ' -f1 "$d/nodes"); do wait_ready "$d/n$i" "${WAIT:-60}" node_up "$d/n$i"; done
  awk '{printf "%s127.0.0.1:%s", s, $2; s=","} END {print ""}' "$d/nodes"
}
stop() { # DATADIR: all are told first: the last one of a quorum would wait for the others for ever
  local n pid _
  for n in "$1"/n[0-9]*; do ! pid_alive "$n/pid" || { read -r pid _ <"$n/pid"; kill -TERM "$pid"; }; done
  for n in "$1"/n[0-9]*; do stop_pidfile "$n" "${STOPWAIT:-8}"; done
}

case ${1:-help} in
  install) install;;
  prepare) install; prepare "$(absdir "$2")";;
  run) run_node "$(absdir "$2")" "$3";;
  start) install; start "$(absdir "$2")" "${3:-1}" "${4:-19092}";;
  start-node) start_node "$(absdir "$2")" "$3"; wait_ready "$2/n$3" "${WAIT:-60}" node_up "$2/n$3";;
  stop-node) stop_pidfile "$2/n$3" 20;;
  kill-node) stop_pidfile "$2/n$3" 5 KILL;;
  stop) stop "$2";;
  stats) for d in "$2"/n[0-9]*; do echo "$d $(stats "$d")"; done;;
  tool) install; shift; java_ -Xmx128m "$@";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
