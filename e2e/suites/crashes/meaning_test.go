package crashes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// meaning says in words what a write does, without names and times, so that the write of one life
// can be found again in another.
type meaning string

// write is a call of Stratos's that changes something.
type write struct {
	meaning meaning
	// pool, node, instance and pod say what it is about; one of them is set.
	pool, node, instance, pod string
}

// apiWrite reads a call of the API server. The zero write is one that belongs to no life: a read,
// an event, a definition.
func apiWrite(method, path string, body []byte) write {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	sub := func(after int) string { return strings.Join(parts[min(after, len(parts)):], "/") }
	switch {
	case method == http.MethodGet:
	case strings.HasPrefix(path, "/api/v1/nodes/"):
		w := write{node: parts[3]}
		switch {
		case method == http.MethodDelete:
			w.meaning = "node: delete"
		case sub(4) == "status":
			w.meaning = meaning("node status: " + strings.Join(reasons(body), ","))
		default:
			w.meaning = meaning("node: " + ofPatch(body))
		}
		return w
	case strings.HasPrefix(path, "/apis/stratos.sh/v1alpha1/nodepools/"):
		w := write{pool: parts[4]}
		if sub(5) == "status" {
			w.meaning = "pool status"
		} else {
			w.meaning = meaning("pool: " + ofPool(body))
		}
		return w
	case strings.HasSuffix(path, "/eviction"):
		return write{pod: parts[5], meaning: "pod: evict"}
	}
	return write{}
}

// ofPatch reads a JSON patch: the state that it enters, else the type that it intends, else the
// paths that it changes.
func ofPatch(body []byte) string {
	var ops []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &ops); err != nil {
		return "not a JSON patch"
	}
	var paths []string
	state, as := "", ""
	for _, o := range ops {
		switch {
		case o.Op == "test":
		case o.Path == "/metadata/labels/stratos.sh~1state":
			state = fmt.Sprint("state ", o.Value)
		case o.Path == "/metadata/annotations/stratos.sh~1instance-type" && o.Op != "remove":
			as = asFallback
		default:
			paths = append(paths, o.Op+" "+o.Path[strings.LastIndex(o.Path, "/")+1:])
		}
	}
	switch {
	case state != "":
		return state + as
	case as != "":
		return "type"
	}
	slices.Sort(paths)
	return strings.Join(slices.Compact(paths), ",")
}

// ofPool reads a merge patch of a pool.
func ofPool(body []byte) string {
	var patch struct {
		Metadata struct {
			Finalizers  *[]string
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return "not a merge patch"
	}
	launches, written := patch.Metadata.Annotations[v1alpha1.AnnotationLaunches]
	switch {
	case written && strings.Contains(launches, "pending"):
		return "launch reserved"
	case written:
		return "launch settled"
	case patch.Metadata.Finalizers != nil && len(*patch.Metadata.Finalizers) > 0:
		return "finalizer added"
	}
	return "finalizer removed"
}

// reasons are those of the conditions in a patch of a status.
func reasons(body []byte) []string {
	var patch struct {
		Status struct{ Conditions []struct{ Reason string } }
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return []string{"not a patch"}
	}
	var all []string
	for _, c := range patch.Status.Conditions {
		if c.Reason != "" {
			all = append(all, c.Reason)
		}
	}
	slices.Sort(all)
	return all
}

// cloudWrite reads a call of the cloud.
func cloudWrite(method, path string, body []byte) write {
	id, verb, _ := strings.Cut(strings.TrimPrefix(path, "/v1/instances/"), "/")
	switch {
	case method == http.MethodPost && path == "/v1/instances":
		var launch struct {
			Request provider.LaunchRequest `json:"request"`
		}
		if err := json.Unmarshal(body, &launch); err != nil {
			return write{}
		}
		return write{pool: launch.Request.Tags[v1alpha1.LabelPool], meaning: launched}
	case method == http.MethodDelete:
		return write{instance: id, meaning: terminated}
	case verb == "start":
		return write{instance: id, meaning: started}
	case verb == "type":
		return write{instance: id, meaning: retyped}
	case verb == "stop":
		return write{instance: id, meaning: stopped}
	case verb == "tags":
		var patch struct {
			Tags map[string]string `json:"tags"`
		}
		if err := json.Unmarshal(body, &patch); err != nil {
			return write{}
		}
		return write{instance: id, meaning: meaning("cloud: tag " + patch.Tags[v1alpha1.LabelState])}
	}
	return write{}
}

// The calls of the cloud that do something to an instance.
const (
	launched   meaning = "cloud: launch"
	started    meaning = "cloud: start"
	stopped    meaning = "cloud: stop"
	terminated meaning = "cloud: terminate"
	retyped    meaning = "cloud: change type"
)

// asFallback ends the meaning of what is about a start as another type.
const asFallback = " as another type"
