#!/usr/bin/env bash
# A Kafka consumer that has nothing in common with ours: librdkafka, by its Python package.
#   librdkafka.sh install                   into a virtual environment in the cache folder
#   librdkafka.sh read BROKERS TOPIC        what a reader at read_committed gets of a topic up to its present
#                                           end, as lines "PARTITION OFFSET KEY" with the key in hexadecimal
. "$(dirname "$0")/lib.sh"
V=${CONFLUENT_KAFKA_VERSION:-2.16.1}; H=$SVC_OPT/confluent-kafka-$V

venv() {
  [ ! -f "$H/.done" ] || return 0
  log "installing confluent-kafka $V"
  rm -rf "$H"
  python3 -m venv "$H"
  nice "$H/bin/pip" install -q --disable-pip-version-check --only-binary=:all: "confluent-kafka==$V" >&2
  touch "$H/.done"
}
install() {
  apt_need python3 python3
  # Debian's python3 has no module that fills an environment, and apt_need asks for a command.
  python3 -c 'import ensurepip' 2>/dev/null || apt_need ensurepip python3-venv
  locked confluent-kafka venv
}

case ${1:-help} in
  install) install;;
  read) install; exec "$H/bin/python" "$SVC_ROOT/librdkafka/read.py" "$2" "$3";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
