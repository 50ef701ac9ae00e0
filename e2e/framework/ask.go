package framework

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// AskFilter asks the extender at the URL about the pod and the candidates, as the scheduler does.
func AskFilter(ctx context.Context, url string, pod *corev1.Pod,
	nodes ...string) (extenderv1.ExtenderFilterResult, error) {
	answer := extenderv1.ExtenderFilterResult{}
	err := Ask(ctx, url+Filter, extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes}, &answer)
	return answer, err
}

// Ask posts the question as JSON and decodes the answer. An answer other than 200 is an error with
// its status and text.
func Ask(ctx context.Context, url string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	text, err := call(ctx, url, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// call gets the URL, or posts the JSON to it. An answer other than 200 is an error.
func call(ctx context.Context, url string, body []byte) ([]byte, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	ctx, cancel := context.WithTimeout(ctx, HangGuard)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, text)
	}
	return text, err
}
