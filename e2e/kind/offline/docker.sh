# A Docker daemon: the machine's where it has one that answers us; else our own, with its own socket, data and configuration, on a machine
# where we are root. It is started by docker_up and ended by docker_down.

own_socket=$daemon/docker.sock
# Packages that a Debian machine needs for the daemon and for a node image; the recommended ones would start services and mount cgroups.
debian_packages=(docker.io containerd runc iptables nftables conntrack ethtool kmod debootstrap iproute2 procps jq)

docker_up() {
  if docker info >/dev/null 2>&1; then return; fi
  export DOCKER_HOST=unix://$own_socket
  if docker info >/dev/null 2>&1; then return; fi
  if [ "$(id -u)" != 0 ] || [ "$(uname -s)" != Linux ]; then
    die "no Docker daemon answers (docker info), and only root on Linux can start one here"
  fi
  install_packages
  start_daemon
}

# use_docker finds the daemon that docker_up found or started, and starts none.
use_docker() {
  if docker info >/dev/null 2>&1; then return; fi
  export DOCKER_HOST=unix://$own_socket
  docker info >/dev/null 2>&1
}

own_daemon() { [ "${DOCKER_HOST:-}" = "unix://$own_socket" ]; }

# docker_socket is the path of the socket on the machine that the daemon runs on: nodes mount it.
docker_socket() {
  case ${DOCKER_HOST:-} in
    unix://*) echo "${DOCKER_HOST#unix://}" ;;
    *) echo /var/run/docker.sock ;;
  esac
}

install_packages() {
  local missing=() package policy=/usr/sbin/policy-rc.d made_policy=
  for package in "${debian_packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then return; fi
  command -v apt-get >/dev/null || die "no Docker here, and no apt-get to install it with: install ${missing[*]}"
  say "installing ${missing[*]}"
  mkdir -p "$work"
  (
    flock 8
    # Without this the package would start the machine's own daemon.
    if [ ! -e $policy ]; then
      printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
      made_policy=yes
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends "${missing[@]}" >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; exit 1; }
    if [ -n "$made_policy" ]; then rm $policy; fi
  ) 8>"$work/apt.lock" </dev/null
}

start_daemon() {
  mkdir -p "$daemon"
  (
    flock 8
    if docker info >/dev/null 2>&1; then exit; fi
    # What the daemon changes on the machine and does not put back.
    { iptables -S FORWARD | head -n 1; sysctl -n net.ipv4.ip_forward; } >"$daemon/before"
    daemon_configuration >"$daemon/daemon.json"
    rm -f "$daemon/docker.pid"
    say "starting dockerd, socket $own_socket"
    # It outlives us: with no file of ours open, so that no pipe and no lock waits for its end.
    setsid bash -c '
      for open in /proc/self/fd/*; do open=${open##*/}; if [ "$open" -gt 2 ]; then eval "exec $open>&-"; fi; done
      exec dockerd --config-file "$0/daemon.json"' "$daemon" >"$daemon/dockerd.log" 2>&1 </dev/null &
  ) 8>"$daemon/lock"
  await 60 "the Docker daemon (its log is $daemon/dockerd.log)" docker info
}

# daemon_configuration has no default bridge: kind makes a network of its own, and nothing else is needed.
daemon_configuration() {
  local runtimes='{}' default=runc
  if lacks_capabilities || [ -e /sys/fs/cgroup/freezer ]; then
    mkdir -p "$bin"
    static_go build -C "$here" -trimpath -buildvcs=false -o "$bin/boundedrunc" ./offline/boundedrunc
    runtimes="{\"bounded\": {\"path\": \"$bin/boundedrunc\"}}" default=bounded
  fi
  jq -n --arg daemon "$daemon" --arg socket "unix://$own_socket" --arg default "$default" --argjson runtimes "$runtimes" '{
    "data-root": "\($daemon)/data", "exec-root": "\($daemon)/run", pidfile: "\($daemon)/docker.pid", hosts: [$socket],
    bridge: "none", runtimes: $runtimes, "default-runtime": $default}'
}

# lacks_capabilities: Docker gives privileged containers every capability that the kernel knows, and fails where we do not have one ourselves.
lacks_capabilities() {
  local bounding last
  bounding=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
  last=$(cat /proc/sys/kernel/cap_last_cap)
  [ $((16#$bounding)) -ne $(((1 << (last + 1)) - 1)) ]
}

# docker_down ends the daemon when it is ours and nobody uses it.
docker_down() {
  if ! own_daemon; then return; fi
  if [ -n "$(docker ps -q)" ]; then
    say "the Docker daemon goes on: other containers run in it"
    return
  fi
  local pid
  # Its networks first: with each go the bridge and the firewall's rules about it.
  docker network prune -f >/dev/null
  pid=$(cat "$daemon/docker.pid")
  kill "$pid"
  await 60 "the end of dockerd" daemon_ended "$pid"
  undo_daemon
  say "ended dockerd; its images stay in $daemon/data"
}

daemon_ended() { ! kill -0 "$1" 2>/dev/null; }

# undo_daemon takes back what dockerd leaves: its chains, and a FORWARD policy that would drop what others forward.
undo_daemon() {
  local command table policy forward
  for command in iptables ip6tables; do
    for table in filter nat raw; do undo_chains $command $table; done
  done
  { read -r policy; read -r forward; } <"$daemon/before"
  iptables $policy # unquoted: it is "-P FORWARD ACCEPT" or the like
  sysctl -qw net.ipv4.ip_forward="$forward"
}

# undo_chains removes Docker's chains from a table: the jumps into them, what is in them, then the chains.
undo_chains() { # command, table
  local rules rule chain
  rules=$($1 -t "$2" -S 2>/dev/null) || return 0 # no such table
  while read -r rule; do
    case $rule in
      '-A DOCKER'*) ;; # goes with its chain
      '-A '*'-j DOCKER'*) eval "$1 -t $2 -D ${rule#-A }" ;;
    esac
  done <<<"$rules"
  for chain in $(sed -n 's/^-N \(DOCKER.*\)/\1/p' <<<"$rules"); do $1 -t "$2" -F "$chain"; done
  for chain in $(sed -n 's/^-N \(DOCKER.*\)/\1/p' <<<"$rules"); do $1 -t "$2" -X "$chain"; done
}
