package fake

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

var (
	taintsFlag = regexp.MustCompile(`--register-with-taints[=\s]+["']?([^\s"'\\]+)`)
	labelsFlag = regexp.MustCompile(`--node-labels[=\s]+["']?([^\s"'\\]+)`)
	powerOff   = regexp.MustCompile(
		`(?m)(?:^|[\s;&|(])(?:/\S*/)?(?:poweroff|halt|shutdown|systemctl\s+(?:poweroff|halt))(?:$|[\s;&|)])`,
	)
	reboot  = regexp.MustCompile(`\bshutdown\s+(?:-r|--reboot)\b`)
	comment = regexp.MustCompile(`(?m)^\s*#.*$`)
)

// script is what user data tells a machine, as far as the simulation understands it.
type script struct {
	kubelet
	// powersOff: the script ends with the machine switching itself off.
	powersOff bool
	// cni is the network that the script names.
	cni cni
	// gracefulShutdown: the kubelet's configuration has a shutdownGracePeriod.
	gracefulShutdown bool
	// renames: the machine sets its host name, which its kubelet registers under from the second boot
	// on.
	renames bool
}

// nodeName is the name that the machine's kubelet registers under in its present boot.
func (s script) nodeName(g simcloud.Guest) v1alpha1.NodeName {
	if s.renames && g.Boot.Number > 1 {
		return v1alpha1.NodeName(g.Name + "-renamed")
	}
	return v1alpha1.NodeName(g.Name)
}

// readScript looks for the kubelet's flags, for a power-off command outside comments, and for the
// CNI's name.
func readScript(userData string) script {
	text := comment.ReplaceAllString(userData, "")
	return script{
		kubelet: kubelet{
			taints: parseTaints(firstGroup(taintsFlag, text)),
			labels: parseLabels(firstGroup(labelsFlag, text)),
		},
		powersOff: powerOff.MatchString(reboot.ReplaceAllString(text, "")),
		cni:       readCNI(text),

		gracefulShutdown: strings.Contains(text, "shutdownGracePeriod"),
		renames:          strings.Contains(text, "hostnamectl set-hostname"),
	}
}

func firstGroup(pattern *regexp.Regexp, text string) string {
	if found := pattern.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// parseTaints reads key=value:Effect,key:Effect. A malformed part is dropped: the real kubelet
// would not start, and a test of that sets FaultKubeletSilent.
func parseTaints(text string) []corev1.Taint {
	return slices.DeleteFunc(taintsOfFlag(text), func(t corev1.Taint) bool { return t.Effect == "" })
}

func parseLabels(text string) map[string]string {
	labels := map[string]string{}
	for _, part := range simcloud.Parts(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		labels[key] = value
	}
	return labels
}
