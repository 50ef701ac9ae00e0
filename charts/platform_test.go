package charts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/provider/price"
)

// TestPlatformValues: what a platform asks of each chart reaches the pods.
func TestPlatformValues(t *testing.T) {
	for _, o := range ofKind(t, "Deployment") {
		d := deployment(t, o)
		pod := d.Spec.Template.Spec
		if links := pod.EnableServiceLinks; links == nil || *links != (o.set == "platform") {
			t.Errorf("%s: enableServiceLinks %v", o, links)
		}
		if o.set != "platform" {
			continue
		}
		stratos := containers(d)["stratos"]
		got := map[string]any{
			"revisions": *d.Spec.RevisionHistoryLimit, "grace": *pod.TerminationGracePeriodSeconds,
			"surge": d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue(), "owner": d.Annotations["example.com/owner"],
			"team of the Deployment": d.Labels["example.com/team"], "team of the pods": d.Spec.Template.Labels["example.com/team"],
			"part": d.Spec.Template.Labels["app.kubernetes.io/part-of"], "name": d.Spec.Template.Labels["app.kubernetes.io/name"],
			"labels of the selector": len(d.Spec.Selector.MatchLabels),
			"image":                  stratos.Image, "scheduler's image": containers(d)["scheduler"].Image,
			"region": stratos.Env, "from": stratos.EnvFrom[0].ConfigMapRef.Name,
		}
		want := map[string]any{
			"revisions": int32(1), "grace": int64(60), "surge": 2, "owner": "platform",
			"team of the Deployment": "platform", "team of the pods": "nodes", "part": "stratos", "name": "stratos",
			"labels of the selector": 2,
			"image":                  "mirror.example.com:5000/stratos-sh/stratos:v0.1.0",
			"scheduler's image":      "mirror.example.com:5000/kube/kube-scheduler:v1.37.2",
			"region":                 []corev1.EnvVar{{Name: "AWS_REGION", Value: "eu-central-1"}}, "from": "proxy",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o, diff)
		}
		for _, arg := range []string{"--zap-log-level=debug", "--zap-encoder=console", "--rate-limit-start-instances=10/4",
			"--rate-limit-describe-instances=off"} {
			if !slices.Contains(stratos.Args, arg) {
				t.Errorf("%s: no %s among %q", o, arg, stratos.Args)
			}
		}
	}
}

// TestPricesReachStratos: as a file, and other prices bring other pods, since they are read at the
// start alone.
func TestPricesReachStratos(t *testing.T) {
	given := map[string]string{}
	for _, o := range ofKind(t, "ConfigMap") {
		if o.Metadata.Name == "stratos-prices" {
			m := &corev1.ConfigMap{}
			o.decode(t, m)
			given[o.set] = m.Data["prices.yaml"]
		}
	}
	if len(given) != 1 || given["platform"] == "" {
		t.Fatalf("prices in the sets %v, want them in platform alone", given)
	}
	if _, err := price.Parse([]byte(given["platform"])); err != nil {
		t.Error(err)
	}
	for _, o := range ofKind(t, "Deployment") {
		d := deployment(t, o)
		stratos := containers(d)["stratos"]
		got := map[string]bool{
			"argument": slices.Contains(stratos.Args, "--prices-file=/etc/stratos/prices/prices.yaml"),
			"mount": slices.ContainsFunc(stratos.VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == "prices" && m.MountPath == "/etc/stratos/prices"
			}),
			"volume": slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
				return v.ConfigMap != nil && v.ConfigMap.Name == "stratos-prices"
			}),
			"checksum": d.Spec.Template.Annotations["checksum/prices"] != "",
		}
		for what, has := range got {
			if want := o.set == "platform"; has != want {
				t.Errorf("%s: %s %t, want %t", o, what, has, want)
			}
		}
	}
}

// TestCommonLabels: on every object of the chart, and in no place of its own labels. A more special
// label wins.
func TestCommonLabels(t *testing.T) {
	objects := 0
	for _, o := range rendered(t) {
		if o.set != "platform" {
			continue
		}
		objects++
		want, wantName := "platform", "stratos"
		switch {
		case o.Kind == "Pod":
			wantName = "stratos-check" // no Service takes it for one of Stratos
		case o.Kind == "ServiceMonitor":
			want = "prometheus"
		case o.Metadata.Name == "proxy" || o.Metadata.Name == "stratos-note":
			want = "" // extraObjects
		}
		if got := o.Metadata.Labels["example.com/team"]; got != want {
			t.Errorf("%s: team %q, want %q", o, got, want)
		}
		if name := o.Metadata.Labels["app.kubernetes.io/name"]; want != "" && name != wantName {
			t.Errorf("%s: name %q", o, name)
		}
	}
	if objects < 15 {
		t.Errorf("%d objects, which is less than there are", objects)
	}
}

// TestExtraObjects: written as objects or as text, both with the release's values.
func TestExtraObjects(t *testing.T) {
	found := map[string]map[string]string{}
	for _, o := range ofKind(t, "ConfigMap") {
		var m corev1.ConfigMap
		o.decode(t, &m)
		if o.set == "platform" && m.Namespace == "stratos-system" {
			found[m.Name] = m.Data
		}
	}
	if found["proxy"]["HTTPS_PROXY"] != "http://proxy.example.com:3128" || found["stratos-note"]["cluster"] != "test" {
		t.Errorf("objects %v", found)
	}
}
