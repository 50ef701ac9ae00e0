#!/bin/sh
# Removes what belongs to this one machine: the image is of many. Runs as root, as the last script.
set -eu

# What was written since the boot goes to /run, and no more is written to the disk.
if [ -d /run/systemd/system ]; then
	systemctl stop rsyslog.service syslog.socket 2>/dev/null || true
	journalctl --relinquish-var
fi

# systemd makes a new machine id where the file is empty.
: >/etc/machine-id
rm -f /var/lib/dbus/machine-id /var/lib/systemd/random-seed /var/lib/systemd/credential.secret
rm -f /etc/ssh/ssh_host_*
# What cloud-init wrote for this machine, and its state: the next boot is the first one.
rm -rf /var/lib/cloud /etc/netplan/50-cloud-init.yaml /etc/network/interfaces.d/50-cloud-init
rm -f /etc/sudoers.d/90-cloud-init-users
rm -f /root/.bash_history /home/*/.bash_history
rm -rf /root/.ssh /home/*/.ssh /root/.aws /home/*/.aws
rm -rf /var/lib/dhcp/* /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/cache/apt/*.bin
find /var/log -type f -delete
rm -rf /var/log/journal/*
find /tmp /var/tmp -mindepth 1 -maxdepth 1 -exec rm -rf {} +
