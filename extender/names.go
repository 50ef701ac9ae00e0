package extender

import (
	"bytes"
	"encoding/json"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// Names are the candidates of one request, as they stand in its body: they are valid until it is
// answered. Code that keeps one makes a string of it.
type Names [][]byte

// NamesOf is for callers that have strings.
func NamesOf(names []string) Names {
	out := make(Names, len(names))
	for i, name := range names {
		out[i] = []byte(name)
	}
	return out
}

// args is what filter and prioritize need of extenderv1.ExtenderArgs.
type args struct {
	pod   *corev1.Pod
	names Names
	// list is the text between the brackets of NodeNames, where it may be sent back as it is; nil
	// else.
	list []byte
}

const (
	beforePod   = `{"Pod":`
	beforeNames = `,"Nodes":null,"NodeNames":[`
	afterNames  = `]}`
)

// cutArgs cuts apart what kube-scheduler's json.Marshal makes of ExtenderArgs with names only. It
// is exact: between its fixed pieces stand a text that encoding/json takes for one value, the pod,
// and names without any character that means something in JSON. So the whole can be read in one way
// only. It is false, and nothing is said of the body, where the body is not of this form.
func cutArgs(body []byte, pods *podCache, into Names) (args, bool) {
	if !bytes.HasPrefix(body, []byte(beforePod)) || !bytes.HasSuffix(body, []byte(afterNames)) {
		return args{}, false
	}
	// The first occurrence is the right one: in a string of the pod the quotes would be escaped. Were
	// it another all the same, what stands before it were not a value.
	pod, list, found := bytes.Cut(body[len(beforePod):], []byte(beforeNames))
	if !found {
		return args{}, false
	}
	list = list[:max(len(list)-len(afterNames), 0)]
	names, ok := cutNames(list, into)
	if !ok {
		return args{}, false
	}
	decoded := pods.decode(pod)
	if decoded == nil {
		return args{}, false
	}
	return args{pod: decoded, names: names, list: list}, true
}

// cutNames cuts a list of plain strings in quotes, with commas and nothing else between them. It
// appends to into.
func cutNames(list []byte, into Names) (Names, bool) {
	names := into[:0]
	for at := 0; at < len(list); {
		if len(names) > 0 {
			if list[at] != ',' {
				return nil, false
			}
			at++
		}
		if at >= len(list) || list[at] != '"' {
			return nil, false
		}
		at++
		end := at
		for end < len(list) && plain(list[end]) {
			end++
		}
		if end == len(list) || list[end] != '"' {
			return nil, false
		}
		names = append(names, list[at:end:end])
		at = end + 1
	}
	return names, true
}

// plain reports whether the byte stands for itself in a JSON string and is written so by
// encoding/json: the characters of node names.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || 'A' <= c && c <= 'Z' || c == '_' ||
		c == ':'
}

// maxCachedPod bounds what the cache holds.
const maxCachedPod = 64 << 10

// podCache remembers the pod that was decoded last. kube-scheduler asks about a pod twice, /filter
// and then /prioritize, and while pods wait about the same few again and again.
type podCache struct{ last atomic.Pointer[decodedPod] }

// decodedPod is not changed once it is stored.
type decodedPod struct {
	text []byte
	pod  *corev1.Pod
}

// decode returns the pod, which may be one that was returned before and is only to be read; nil
// where text is no pod.
func (c *podCache) decode(text []byte) *corev1.Pod {
	if last := c.last.Load(); last != nil && bytes.Equal(last.text, text) {
		return last.pod
	}
	var pod *corev1.Pod
	if json.Unmarshal(text, &pod) != nil || pod == nil {
		return nil
	}
	if len(text) <= maxCachedPod {
		c.last.Store(&decodedPod{text: bytes.Clone(text), pod: pod})
	}
	return pod
}
