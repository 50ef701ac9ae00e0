package userdata

import (
	"regexp"
	"strings"
	"unicode"
)

// between is what stands between the words of a command: spaces, or the marks of a YAML list in
// cloud-config.
const between = `["']?(?:[ \t,]+|[ \t]*\n[ \t]*-[ \t]+)["']?`

// options are flags between a command and its subcommand.
const options = `(?:` + between + `-[^\s"',]+)*`

var (
	bootstrapScript = regexp.MustCompile(`/etc/eks/bootstrap\.sh\b`)
	nodeadmInit     = regexp.MustCompile(`\bnodeadm` + options + between + `init\b`)
	kubeadmJoin     = regexp.MustCompile(`\bkubeadm` + options + between + `(join|init)\b`)
)

// joinCommand is the command by which the text joins a cluster by itself, outside comments, or
// empty. It looks at words only: it cannot tell whether the line is ever reached.
func joinCommand(text string) string {
	text = withoutComments(text)
	switch {
	case bootstrapScript.MatchString(text):
		return "/etc/eks/bootstrap.sh"
	case nodeadmInit.MatchString(text):
		return "nodeadm init"
	}
	if words := kubeadmJoin.FindStringSubmatch(text); words != nil {
		return "kubeadm " + words[1]
	}
	return ""
}

// joinFault refuses a joinCommand, or is empty.
func joinFault(text string) string {
	command := joinCommand(text)
	if command == "" {
		return ""
	}
	return command + " is not allowed, because with spec.bootstrap the node joins by itself: remove it, or remove " +
		"spec.bootstrap"
}

// withoutComments also puts lines together that a backslash continues.
func withoutComments(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(uncommented(line))
	}
	return strings.ReplaceAll(lines.String(), "\\\n", " ")
}

// uncommented cuts a line at a # that begins a word, as the shell and YAML do.
func uncommented(line string) string {
	for i, r := range line {
		if r == '#' && (i == 0 || unicode.IsSpace(rune(line[i-1]))) {
			return line[:i] + "\n"
		}
	}
	return line
}
