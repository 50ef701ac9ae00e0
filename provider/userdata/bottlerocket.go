package userdata

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Bottlerocket merges the user's TOML with the settings of Stratos, which win. It is written anew,
// without comments and with sorted keys. The error is made of Problems.
func Bottlerocket(c Cluster, k Kubelet, user string) (string, error) {
	refused, _ := CheckBottlerocket(user, k.ExtraArgs)
	problems := slices.Concat(checkComplete(c, fieldName, fieldEndpoint, fieldCA), checkLabels(k.Labels), refused)
	if len(problems) > 0 {
		return "", joined(problems)
	}
	doc, err := readSettings(user)
	if err != nil {
		return "", inUserData("%s", err)
	}
	if err := joined(otherCluster(doc.kubernetes, c)); err != nil {
		return "", err
	}
	doc.set(c, k)
	text, err := toml.Marshal(doc.all)
	if err != nil {
		return "", inUserData("the merged settings cannot be written as TOML: %s", err)
	}
	return string(text), nil
}

// settingsDocument is Bottlerocket's TOML. Tables that are missing are made.
type settingsDocument struct {
	all        map[string]any
	kubernetes map[string]any
	labels     map[string]any
	commands   map[string]any
}

func readSettings(user string) (settingsDocument, error) {
	doc := settingsDocument{all: map[string]any{}}
	if err := toml.Unmarshal([]byte(user), &doc.all); err != nil {
		return doc, tomlFault(user, err)
	}
	settings := map[string]any{}
	doc.kubernetes, doc.labels, doc.commands = map[string]any{}, map[string]any{}, map[string]any{}
	err := firstError(
		func() error { return table(doc.all, "settings", "settings", &settings) },
		func() error { return table(settings, "kubernetes", "settings.kubernetes", &doc.kubernetes) },
		func() error {
			return table(doc.kubernetes, "node-labels", "settings.kubernetes.node-labels", &doc.labels)
		},
		func() error {
			return table(settings, "bootstrap-commands", "settings.bootstrap-commands", &doc.commands)
		},
	)
	doc.all["settings"], settings["kubernetes"] = settings, doc.kubernetes
	return doc, err
}

func tomlFault(user string, err error) error {
	if strings.TrimSpace(user) != "" && isEncoded(user) {
		return errors.New("it is encoded with base64 or gzip, so Stratos cannot merge it: write plain TOML")
	}
	where := ""
	if at := (&toml.DecodeError{}); errors.As(err, &at) {
		row, column := at.Position()
		where = fmt.Sprintf(" (line %d, column %d)", row, column)
	}
	return fmt.Errorf("it is not the TOML that Bottlerocket reads%s: %w", where, err)
}

// set overwrites what Stratos knows better. Bottlerocket would look up the address of the cluster's
// DNS itself and guess where it may not: the service range says it. A user's own address stays, as
// that of a DNS cache on the node.
func (d settingsDocument) set(c Cluster, k Kubelet) {
	d.kubernetes["cluster-name"] = c.Name
	d.kubernetes["api-server"] = c.Endpoint
	d.kubernetes["cluster-certificate"] = oneLineCA(c.CertificateAuthority)
	if address := clusterDNS(c.ServiceCIDR); address != "" && d.kubernetes["cluster-dns-ip"] == nil {
		d.kubernetes["cluster-dns-ip"] = address
	}
	if k.MaxPods > 0 {
		d.kubernetes["max-pods"] = k.MaxPods
	}
	for key, value := range k.Labels {
		d.labels[key] = value
	}
	if len(d.labels) > 0 {
		d.kubernetes["node-labels"] = d.labels
	}
	taints := map[string][]string{}
	for _, t := range uniqueTaints(k.Taints) {
		taints[t.Key] = append(taints[t.Key], t.Value+":"+string(t.Effect))
	}
	if len(taints) > 0 {
		d.kubernetes["node-taints"] = taints
	}
}

// otherCluster refuses settings of another cluster than the one that the node joins.
func otherCluster(kubernetes map[string]any, c Cluster) []Problem {
	var found []Problem
	for _, f := range []struct{ key, value, field string }{
		{"cluster-name", c.Name, fieldName},
		{"api-server", c.Endpoint, fieldEndpoint},
		{"cluster-certificate", oneLineCA(c.CertificateAuthority), fieldCA},
	} {
		own, set := kubernetes[f.key]
		text, _ := own.(string)
		if set && text != f.value && (f.field != fieldCA || oneLineCA(text) != f.value) {
			found = append(found, inUserData("settings.kubernetes.%s is not that of the cluster: remove it, or set spec.%s",
				f.key, f.field))
		}
	}
	return found
}

// CheckBottlerocket says what Bottlerocket refuses of the user's text and of
// bootstrap.kubeletExtraArgs, and what it accepts although a stop undoes it. Both are known without
// the cluster.
func CheckBottlerocket(user string, extraArgs []string) (refused, warnings []Problem) {
	refused = checkSize("it", user)
	if len(extraArgs) > 0 {
		refused = append(refused, Problem{fieldArgs, "Bottlerocket takes no flags of the kubelet: " +
			"write settings.kubernetes in spec.userData"})
	}
	doc, err := readSettings(user)
	if err != nil {
		return append(refused, inUserData("%s", err)), nil
	}
	for _, f := range []struct{ key, instead string }{
		{"node-taints", "set taints or startupTaints in spec.template of the NodePool"},
		{"hostname-override", "all nodes of the class would have one name"},
		{"provider-id", "Bottlerocket sets it, and Stratos finds the Node by it"},
		{"standalone-mode", "a kubelet that stands alone joins no cluster"},
	} {
		if value := doc.kubernetes[f.key]; value != nil && value != false {
			refused = append(refused, inUserData("settings.kubernetes.%s is not allowed: %s", f.key, f.instead))
		}
	}
	refused = append(refused, doc.checkLabels()...)
	return refused, doc.warnings()
}

func (d settingsDocument) checkLabels() []Problem {
	var found []Problem
	for _, key := range slices.Sorted(maps.Keys(d.labels)) {
		value, isText := d.labels[key].(string)
		if !isText {
			found = append(found, inUserData("settings.kubernetes.node-labels.%q must be a string", key))
		} else if fault := userLabelFault(key, value); fault != "" {
			found = append(found, inUserData("%s", fault))
		}
	}
	return found
}

func (d settingsDocument) warnings() []Problem {
	var found []Problem
	if d.kubernetes["max-pods"] != nil {
		found = append(found, inUserData("Stratos does not read settings.kubernetes.max-pods: set spec.bootstrap.maxPods"))
	}
	if len(d.labels) > 0 {
		found = append(found, inUserData("Stratos does not read settings.kubernetes.node-labels, so it starts no node for a pod "+
			"that selects them: set spec.template.labels of the NodePool"))
	}
	return append(found, d.bindWarnings()...)
}

// HasStaticMemory reports whether the text is Bottlerocket's TOML and sets the memory manager's
// policy Static. Bottlerocket keeps the manager's state file over a boot, and its kubelet exits
// where the memory of the machine differs from the file's.
func HasStaticMemory(user string) bool {
	doc, err := readSettings(decoded(user))
	return err == nil && doc.kubernetes["memory-manager-policy"] == "Static"
}

// bindWarnings names the commands that put containerd and the kubelet on the instance store.
func (d settingsDocument) bindWarnings() []Problem {
	var found []Problem
	for _, name := range slices.Sorted(maps.Keys(d.commands)) {
		command, _ := d.commands[name].(map[string]any)
		lines, _ := command["commands"].([]any)
		if command["mode"] != "off" && slices.ContainsFunc(lines, bindsStorage) {
			found = append(found, inUserData("settings.bootstrap-commands.%s binds folders to the instance store, "+
				"which a stop wipes with all pulled images: leave out `ephemeral-storage bind`", name))
		}
	}
	return found
}

func bindsStorage(line any) bool {
	words, _ := line.([]any)
	storage := slices.Index(words, any("ephemeral-storage"))
	return storage >= 0 && slices.Contains(words[storage:], any("bind"))
}
