#!/usr/bin/env bash
# PostgreSQL from Debian. Superuser and database "postgres", no password, loopback only.
#   postgres.sh install | run DATADIR PORT | start DATADIR [PORT=55432] | stop|kill|stats DATADIR
# As root the server runs as user postgres, who must be able to walk to DATADIR (no folder of mode 0700 above it).
# DATADIR/security (written by internal/services) makes it a secured one: TLS and nothing else, with the superuser's
# password and who may come in how.
. "$(dirname "$0")/lib.sh"
pgbin() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n1; }
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
packages() {
  [ -z "$(pgbin)" ] || return 0
  if [ "$(id -u)" = 0 ]; then   # keep Debian from making and starting a cluster of its own
    mkdir -p /etc/postgresql-common; echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  fi
  apt_install postgres postgresql
}
install() { locked apt packages; }
prepare() { # DATADIR
  local d=$1 auth=(-A trust) pg; pg=$(pgbin)
  [ ! -s "$d/db/PG_VERSION" ] || return 0
  mkdir -p "$d/db"; [ "$(id -u)" != 0 ] || chown postgres: "$d/db"
  if [ -d "$d/security" ]; then
    auth=(-A scram-sha-256 --pwfile "$d/security/password")
    [ "$(id -u)" != 0 ] || chown postgres: "$d/security"/{password,pg_hba.conf,server.key}
  fi
  as "$pg/initdb" -D "$d/db" -U postgres "${auth[@]}" -E UTF8 --locale=C.UTF-8 --no-sync >"$d/initdb.log" 2>&1 || { cat "$d/initdb.log" >&2; die "initdb failed"; }
}
run() { # DATADIR PORT
  local d=$1 port=$2 pre=() tls=() sec=$1/security
  [ ! -d "$sec" ] || tls=(-c ssl=on -c ssl_cert_file="$sec/server.crt" -c ssl_key_file="$sec/server.key" -c ssl_ca_file="$sec/ca.pem" -c hba_file="$sec/pg_hba.conf")
  # exec, so that the pid is the postmaster's; the death signal does not survive a change of user by itself.
  [ "$(id -u)" != 0 ] || pre=(setpriv --reuid=postgres --regid=postgres --init-groups --pdeathsig=keep)
  serve "$d" "${pre[@]}" "$(pgbin)/postgres" -D "$d/db" -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
    -c max_prepared_transactions=64 -c max_connections=100 -c shared_buffers=64MB -c wal_level=logical -c jit=off "${tls[@]}" ${PG_EXTRA:-}
}
case ${1:-help} in
  install) install;;
  run) install; D=$(absdir "$2"); prepare "$D"; run "$D" "$3";;
  start) D=$(absdir "$2"); P=${3:-55432}; install
    if ! pid_alive "$D/pid"; then
      prepare "$D"; need_free "$P"; : >"$D/log"
      start_bg "$D" bash "$SVC_ROOT/postgres.sh" run "$D" "$P"
      wait_ready "$D" "${WAIT:-30}" "$(pgbin)/pg_isready" -q -h 127.0.0.1 -p "$P" -U postgres
    fi
    echo "postgres://postgres@127.0.0.1:$P/postgres?sslmode=disable";;
  stop) stop_pidfile "$2" 20 INT;;     # INT: fast shutdown
  kill) stop_pidfile "$2" 5 KILL;;     # a crash: the backends notice the dead postmaster and leave
  stats) stats "$2";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
