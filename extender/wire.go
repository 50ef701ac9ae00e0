package extender

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// maxPooledBytes keeps one giant request from holding its memory for the life of the process. 5000
// names take about 250 KiB.
const maxPooledBytes = 1 << 20

// bodyPool reuses the buffers that bodies are read into. Nothing decoded refers to them.
type bodyPool struct{ buffers sync.Pool }

func newBodyPool() *bodyPool {
	return &bodyPool{buffers: sync.Pool{New: func() any { return &bytes.Buffer{} }}}
}

func (p *bodyPool) get() *bytes.Buffer { return p.buffers.Get().(*bytes.Buffer) }

func (p *bodyPool) put(buffer *bytes.Buffer) {
	if buffer.Cap() > maxPooledBytes {
		return
	}
	buffer.Reset()
	p.buffers.Put(buffer)
}

// args is what filter and prioritize need of extenderv1.ExtenderArgs.
type args struct {
	pod       *corev1.Pod
	nodeNames []string
}

// decodeArgs reads extenderv1.ExtenderArgs. Every error is a refusal with a 4xx.
func decodeArgs(body []byte) (args, error) {
	if err := checkNotEmpty(body); err != nil {
		return args{}, err
	}
	// Nodes stays raw: a scheduler that is not nodeCacheCapable sends thousands of whole objects, only to be refused.
	var envelope struct {
		Pod       *corev1.Pod
		Nodes     json.RawMessage
		NodeNames *[]string
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return args{}, refuse(http.StatusBadRequest, "the request body is not ExtenderArgs in JSON: %v", err)
	}
	if envelope.Pod == nil {
		return args{}, refuse(http.StatusBadRequest, "Pod is missing")
	}
	if err := checkPod(envelope.Pod); err != nil {
		return args{}, err
	}
	if envelope.NodeNames == nil {
		whole := len(envelope.Nodes) > 0 && !bytes.Equal(envelope.Nodes, []byte("null"))
		return args{}, refuse(http.StatusBadRequest, "NodeNames is missing (Nodes with whole objects: %t): "+
			"the extender's entry in KubeSchedulerConfiguration needs nodeCacheCapable: true", whole)
	}
	return args{pod: envelope.Pod, nodeNames: *envelope.NodeNames}, nil
}

func checkNotEmpty(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return refuse(http.StatusBadRequest, "the request body is empty")
	}
	return nil
}

// checkPod refuses a pod that no API server made. Claims are kept by UID, so a pod without one
// could take the claim of another.
func checkPod(pod *corev1.Pod) error {
	if pod.UID == "" || pod.Name == "" || pod.Namespace == "" {
		return refuse(http.StatusBadRequest, "Pod needs metadata.uid, metadata.name and metadata.namespace")
	}
	return nil
}

// decodePreemption reads extenderv1.ExtenderPreemptionArgs. Whole victims, as a scheduler without
// nodeCacheCapable sends them, become their UIDs. Nodes without a victim are left out: nothing can
// be evicted there, and the answer must not name them.
func decodePreemption(body []byte) (*corev1.Pod, map[string]*extenderv1.MetaVictims, error) {
	if err := checkNotEmpty(body); err != nil {
		return nil, nil, err
	}
	var preemption extenderv1.ExtenderPreemptionArgs
	if err := json.Unmarshal(body, &preemption); err != nil {
		return nil, nil, refuse(http.StatusBadRequest, "the request body is not ExtenderPreemptionArgs in JSON: %v", err)
	}
	if preemption.Pod == nil {
		return nil, nil, refuse(http.StatusBadRequest, "Pod is missing")
	}
	if err := checkPod(preemption.Pod); err != nil {
		return nil, nil, err
	}
	victims := preemption.NodeNameToMetaVictims
	if victims == nil {
		victims = toMetaVictims(preemption.NodeNameToVictims)
	}
	return preemption.Pod, withVictims(victims), nil
}

func toMetaVictims(whole map[string]*extenderv1.Victims) map[string]*extenderv1.MetaVictims {
	converted := make(map[string]*extenderv1.MetaVictims, len(whole))
	for node, victims := range whole {
		if victims == nil {
			continue
		}
		meta := &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			if pod != nil {
				meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
			}
		}
		converted[node] = meta
	}
	return converted
}

// withVictims returns a new map of the nodes with at least one victim, without null victims.
// kube-scheduler dereferences every entry it gets back, and takes a node without victims from an
// extender that is not ignorable for an error that fails the pod.
func withVictims(all map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims {
	kept := make(map[string]*extenderv1.MetaVictims, len(all))
	for node, victims := range all {
		if victims == nil {
			continue
		}
		pods := make([]*extenderv1.MetaPod, 0, len(victims.Pods))
		for _, pod := range victims.Pods {
			if pod != nil {
				pods = append(pods, pod)
			}
		}
		if len(pods) > 0 {
			kept[node] = &extenderv1.MetaVictims{Pods: pods, NumPDBViolations: victims.NumPDBViolations}
		}
	}
	return kept
}

// encodeFilterAnswer always sends NodeNames, as an empty list where no node is left.
func encodeFilterAnswer(answer FilterAnswer) ([]byte, error) {
	nodes := answer.Nodes
	if nodes == nil {
		nodes = []string{}
	}
	return json.Marshal(extenderv1.ExtenderFilterResult{
		NodeNames:                  &nodes,
		FailedNodes:                answer.Failed,
		FailedAndUnresolvableNodes: answer.FailedUnresolvable,
	})
}

// encodeScores pairs names and scores. A score out of range is brought to the nearest allowed one:
// kube-scheduler would add it as it is, and it would outweigh every plugin.
func encodeScores(names []string, scores []int64) ([]byte, error) {
	list := make(extenderv1.HostPriorityList, len(names))
	for i, name := range names {
		score := min(max(scores[i], extenderv1.MinExtenderPriority), extenderv1.MaxExtenderPriority)
		list[i] = extenderv1.HostPriority{Host: name, Score: score}
	}
	return json.Marshal(list)
}

func encodePreemption(victims map[string]*extenderv1.MetaVictims) ([]byte, error) {
	return json.Marshal(extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: withVictims(victims)})
}
