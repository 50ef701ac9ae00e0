package webhook

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxUserData is EC2's limit, before it is encoded.
const maxUserData = 16 << 10

// validateUserData checks the form. merged tells that Stratos adds to it what makes nodes join:
// what it can be merged with is checked apart.
func validateUserData(data string, merged bool, at *field.Path) (field.ErrorList, admission.Warnings) {
	if len(data) > maxUserData {
		return field.ErrorList{field.TooLong(at, "", maxUserData)}, nil
	}
	first, _, _ := strings.Cut(data, "\n")
	switch {
	case strings.TrimSpace(data) == "":
		return nil, nil
	case strings.HasPrefix(first, "#!") && strings.HasSuffix(first, "\r"):
		return nil, warn(
			at,
			"the lines end with carriage returns, so the system looks for an interpreter whose name ends with one; use plain line feeds",
		)
	case isEncoded(data):
		return nil, warn(at, "this looks encoded with base64; write it as plain text, Stratos encodes it")
	case !merged && !isUnderstood(data):
		return nil, warn(
			at,
			"cloud-init runs nothing that begins like this; begin with #!/bin/bash, #cloud-config, or a MIME header (Bottlerocket: a [settings] table)",
		)
	}
	return nil, nil
}

// isEncoded reports whether the text is base64 of something that boots.
func isEncoded(data string) bool {
	plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(data), ""))
	return err == nil && isUnderstood(string(plain))
}

// isUnderstood knows the beginnings that cloud-init, Bottlerocket and EC2Launch (Windows) know. A
// NodeConfig by itself is read by nodeadm.
func isUnderstood(data string) bool {
	text := strings.TrimLeftFunc(data, unicode.IsSpace)
	for _, beginning := range []string{"#", "MIME-Version:", "Content-Type:", "Content-type:", "From ", "[",
		"<powershell>", "<script>", "\x1f\x8b"} {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	return isBottlerocket(data) || strings.Contains(data, "node.eks.aws/")
}

// isBottlerocket: its user data is TOML with tables under settings. It has no shell, so nothing in
// it can power off.
func isBottlerocket(data string) bool {
	for line := range strings.Lines(data) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[settings") || strings.HasPrefix(line, "settings.") {
			return true
		}
	}
	return false
}

// powersOff reports whether the user data switches the instance off: by a command anywhere outside
// comments, in a script, a systemd unit or cloud-init's runcmd, or by cloud-init's power_state. It
// looks at words only: it cannot tell whether the line is ever reached.
func powersOff(data string) bool {
	if isBottlerocket(data) {
		return false
	}
	for line := range strings.Lines(data) {
		for _, command := range commands(line) {
			if isPowerOff(command) {
				return true
			}
		}
	}
	return false
}

// commands splits a line into commands of words, without the comment.
func commands(line string) [][]string {
	var split [][]string
	for part := range strings.FieldsFuncSeq(uncommented(line), func(r rune) bool {
		return strings.ContainsRune(";&|(){}`",
			r)
	}) {
		words := strings.FieldsFunc(part, func(r rune) bool {
			return unicode.IsSpace(r) ||
				strings.ContainsRune(`"',=[]`, r)
		})
		if len(words) > 0 {
			split = append(split, words)
		}
	}
	return split
}

// uncommented cuts a line at a # that begins a word, as the shell and YAML do.
func uncommented(line string) string {
	for i, r := range line {
		if r == '#' && (i == 0 || unicode.IsSpace(rune(line[i-1]))) {
			return line[:i]
		}
	}
	return line
}

func isPowerOff(words []string) bool {
	for i, word := range words {
		rest := words[i+1:]
		switch program(word) {
		case "poweroff", "halt", "stop-instances": // the last is of `aws ec2`
			return true
		case "shutdown":
			return !containsAny(rest, "-r", "--reboot", "-c", "-k")
		case "init", "telinit":
			return len(rest) > 0 && rest[0] == "0"
		case "systemctl":
			return containsAny(rest, "poweroff", "halt", "poweroff.target", "halt.target")
		}
	}
	return false
}

// program is the name of the program that a word calls: itself, or the last part of a path to a
// folder of programs.
func program(word string) string {
	if i := strings.LastIndex(word, "bin/"); i >= 0 {
		return word[i+len("bin/"):]
	}
	return word
}

func containsAny(words []string, wanted ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(wanted, w) })
}

// registration is what the user data says of a startup taint.
type registration string

const (
	registered          registration = "registered"
	registeredOtherwise registration = "registered otherwise"
	notRegistered       registration = "not registered"
)

// registers looks for the taint in the kubelet's flag (key=value:Effect), and otherwise for its
// key, because nodeadm's and Bottlerocket's files spell taints out in fields of their own.
func registers(data string, taint corev1.Taint) registration {
	for line := range strings.Lines(data) {
		line = uncommented(line)
		at := strings.Index(line, taint.Key)
		if at < 0 {
			continue
		}
		if !strings.Contains(line, "register-with-taints") || !strings.ContainsAny(line[at:], ":") {
			return registered
		}
		if hasFlagTaint(line, taint) {
			return registered
		}
		return registeredOtherwise
	}
	return notRegistered
}

func hasFlagTaint(line string, taint corev1.Taint) bool {
	forms := []string{taint.Key + "=" + taint.Value + ":" + string(taint.Effect)}
	if taint.Value == "" {
		forms = append(forms, taint.Key+":"+string(taint.Effect))
	}
	words := strings.FieldsFunc(line, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"',\`, r) })
	return slices.ContainsFunc(words, func(word string) bool {
		word = strings.TrimPrefix(word, "--register-with-taints=")
		return slices.Contains(forms, word) || slices.ContainsFunc(forms,
			func(f string) bool { return strings.HasSuffix(word, "register-with-taints="+f) })
	})
}
