package userdata

import (
	_ "embed"
	"fmt"
	"strings"
)

// kubeletState has systemd-tmpfiles remove the state files of the kubelet's CPU manager and memory
// manager at each boot: the machine may come up as another instance type. Bottlerocket has no place
// for it, and removes the first of the files itself.
//
//go:embed kubelet-state.conf
var kubeletState string

const kubeletStatePath = "/etc/tmpfiles.d/stratos-kubelet-state.conf"

// installedFile is a file that a script of Stratos writes.
type installedFile struct {
	path, mode, text string
}

// kubeletStateFile is written at the first boot. It acts from the second on, because at the first
// one systemd-tmpfiles has run before cloud-init.
func kubeletStateFile() installedFile {
	return installedFile{kubeletStatePath, "0644", kubeletState}
}

// scriptOf writes the files and runs the commands.
func scriptOf(files []installedFile, commands ...string) string {
	var script strings.Builder
	script.WriteString(`#!/bin/sh
# Written by Stratos.
set -eu
write() {
	mkdir -p "${1%/*}"
	(umask 077 && cat >"$1")
	chmod "$2" "$1"
}
`)
	for _, f := range files {
		fmt.Fprintf(&script, "write %s %s <<'END_OF_FILE'\n%sEND_OF_FILE\n", f.path, f.mode, f.text)
	}
	for _, command := range commands {
		script.WriteString(command + "\n")
	}
	return script.String()
}

// firstScript is a script of Stratos that runs before those of the user: cloud-init sorts them by
// the names of their files.
func firstScript(name, script string) part {
	first := scriptPart("text/x-shellscript", script)
	first.header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "00-"+name))
	return first
}
