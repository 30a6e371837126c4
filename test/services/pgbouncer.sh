#!/usr/bin/env bash
# PgBouncer from Debian, in transaction mode, before a PostgreSQL on this machine. Every user is let in, as postgres.
#   pgbouncer.sh install | run DATADIR PORT SERVERPORT
# As root it runs as user postgres, whom the package of PostgreSQL makes.
. "$(dirname "$0")/lib.sh"
install() { bash "$SVC_ROOT/postgres.sh" install; PATH=$PATH:/usr/sbin apt_need pgbouncer pgbouncer; }
run() { # DATADIR PORT SERVERPORT
  local d=$1 pre=()
  mkdir -p "$d"
  cat >"$d/pgbouncer.ini" <<I
[databases]
* = host=127.0.0.1 port=$3 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $2
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
server_idle_timeout = 5
logfile =
pidfile =
I
  [ "$(id -u)" != 0 ] || { chown -R postgres: "$d"; pre=(setpriv --reuid=postgres --regid=postgres --init-groups --pdeathsig=keep); }
  serve "$d" "${pre[@]}" "$(PATH=$PATH:/usr/sbin command -v pgbouncer)" -q "$d/pgbouncer.ini"
}
case ${1:-help} in
  install) install;;
  run) install; run "$(absdir "$2")" "$3" "$4";;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
