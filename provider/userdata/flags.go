package userdata

import (
	"fmt"
	"regexp"
	"strings"
)

// extraArg has a value always, because a flag without one takes the next flag for its value.
// systemd splits the flags at spaces and reads quotes and backslashes.
var extraArg = regexp.MustCompile(`^--([a-z][a-z0-9-]*)=([^\s"'\\]*)$`)

// checkArgs refuses flags of bootstrap.kubeletExtraArgs, some by their names.
func checkArgs(args []string, nameFault func(string) string) []Problem {
	var found []Problem
	for i, arg := range args {
		if fault := argFault(arg, nameFault); fault != "" {
			found = append(found, Problem{Field: fmt.Sprintf("%s[%d]", fieldArgs, i), Reason: fault})
		}
	}
	return found
}

func argFault(arg string, nameFault func(string) string) string {
	words := extraArg.FindStringSubmatch(arg)
	switch {
	case words == nil:
		return fmt.Sprintf("%q is not allowed: write one flag as --name=value, without spaces, quotes and backslashes", arg)
	case words[1] == "node-labels":
		return "--node-labels is not allowed: set spec.template.labels of the NodePool"
	}
	return nameFault(words[1])
}

// flagFault says why neither arguments nor user data may have the flag, or is empty. A flag beats
// the configuration file in which Stratos sets taints and the number of pods. Other flags that
// nodeadm sets, as --node-ip, may be set again: the node joins all the same.
func flagFault(name string) string {
	switch name {
	case "config", "config-dir":
		return notAllowed(name, "Stratos sets taints in the file that nodeadm names with it; write spec.kubelet.config "+
			"of a NodeConfig in spec.userData")
	case "kubeconfig", "bootstrap-kubeconfig", "cloud-provider", "hostname-override", "provider-id":
		return notAllowed(name, "nodeadm sets it, and with another value the node does not join or Stratos does not find it")
	}
	return commonFlagFault(name)
}

// kubeadmFlagFault is flagFault for nodes that join by kubeadm. There all that Stratos sets is a
// flag, and a cluster needs --cloud-provider=external or not.
func kubeadmFlagFault(name string) string {
	switch name {
	case "config", "kubeconfig", "bootstrap-kubeconfig", "cert-dir":
		return notAllowed(name, "the kubelet's service names the files of kubeadm with it, and with others the node does not join")
	case "hostname-override", "provider-id":
		return notAllowed(name, "Stratos sets it from the metadata service, and finds the Node by it")
	}
	return commonFlagFault(name)
}

func commonFlagFault(name string) string {
	switch name {
	case "register-with-taints":
		return notAllowed(name, "set taints or startupTaints in spec.template of the NodePool")
	case "max-pods":
		return notAllowed(name, "set spec.bootstrap.maxPods")
	case "register-node":
		return notAllowed(name, "Stratos needs the Node that the kubelet registers")
	}
	return ""
}

func notAllowed(name, instead string) string {
	return "the kubelet's flag --" + name + " is not allowed: " + instead
}

// flag is one flag of a command line. value is empty where it has none.
type flag struct{ name, value string }

// flagsOf reads the flags of a NodeConfig as systemd and the kubelet do: words may share an entry,
// a value may be a word of its own, and an underscore in a name is a hyphen.
func flagsOf(entries []string) []flag {
	words := strings.FieldsFunc(strings.Join(entries, " "), func(r rune) bool {
		return strings.ContainsRune(" \t\r\n", r)
	})
	var found []flag
	for _, word := range words {
		word = strings.NewReplacer(`"`, "", "'", "", `\`, "").Replace(word)
		name, isFlag := strings.CutPrefix(word, "--")
		if isFlag {
			name, value, _ := strings.Cut(name, "=")
			found = append(found, flag{strings.ReplaceAll(name, "_", "-"), value})
		} else if last := len(found) - 1; last >= 0 && found[last].value == "" {
			found[last].value = word
		}
	}
	return found
}

// userFlagFaults says what is wrong with the flags of a user's NodeConfig.
func userFlagFaults(entries []string) []string {
	var faults []string
	for _, entry := range entries {
		if endsTheLine(entry) {
			faults = append(faults, fmt.Sprintf("spec.kubelet.flags of a NodeConfig has the entry %q, which may not have "+
				"a line break, an open quote or a backslash at its end: the flags of Stratos come behind it", entry))
		}
	}
	for _, f := range flagsOf(entries) {
		if fault := flagFault(f.name); fault != "" {
			faults = append(faults, fault)
		}
		if f.name != "node-labels" {
			continue
		}
		for pair := range strings.SplitSeq(f.value, ",") {
			key, value, _ := strings.Cut(pair, "=")
			if fault := userLabelFault(key, value); pair != "" && fault != "" {
				faults = append(faults, fault)
			}
		}
	}
	return faults
}

func setsLabels(entries []string) bool {
	for _, f := range flagsOf(entries) {
		if f.name == "node-labels" {
			return true
		}
	}
	return false
}

// endsTheLine reports whether a later flag would be lost. nodeadm joins all flags by spaces, and
// systemd reads them as one line of a file.
func endsTheLine(entry string) bool {
	return strings.ContainsAny(entry, "\r\n") || strings.Count(entry, `"`)%2 != 0 ||
		strings.Count(entry, "'")%2 != 0 || strings.HasSuffix(entry, `\`)
}
