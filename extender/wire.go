package extender

import (
	"bytes"
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// decodeArgs reads extenderv1.ExtenderArgs: what kube-scheduler sends by cutting it into pieces
// (BenchmarkJSON says why), anything else by encoding/json. Every error is a refusal with a 4xx.
// The names of the answer are pieces of body, or of what takes its place.
func decodeArgs(body []byte, pods *podCache, into Names) (args, error) {
	if a, ok := cutArgs(body, pods, into); ok {
		return a, checkPod(a.pod)
	}
	return decodeAnyArgs(body)
}

// decodeAnyArgs is decodeArgs by encoding/json alone.
func decodeAnyArgs(body []byte) (args, error) {
	if err := checkNotEmpty(body); err != nil {
		return args{}, err
	}
	// Nodes stays raw: a scheduler that is not nodeCacheCapable sends thousands of whole objects, only
	// to be refused.
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
	return args{pod: envelope.Pod, names: NamesOf(*envelope.NodeNames)}, nil
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

func encodePreemption(victims map[string]*extenderv1.MetaVictims) ([]byte, error) {
	return json.Marshal(extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: withVictims(victims)})
}
