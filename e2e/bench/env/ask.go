package env

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// Asker asks an extender as kube-scheduler does: HTTP/1.1, one connection that is kept.
type Asker struct {
	http http.Client
	url  string
}

// NewAsker asks at the URL, over TLS with the certificates of the authority where it is https. A
// server that wants to know who asks is shown the certificates.
func NewAsker(url string, authority *x509.CertPool, mine ...tls.Certificate) *Asker {
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authority, Certificates: mine, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 1,
	}
	return &Asker{http: http.Client{Transport: transport, Timeout: framework.HangGuard}, url: url}
}

// Question is the body of a request about the pod and the candidates.
func Question(pod *corev1.Pod, candidates []string) ([]byte, error) {
	return json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &candidates})
}

// Ask sends a question to the verb, such as /filter, and returns the answer and the time from
// before the request until the answer was read.
func (a *Asker) Ask(ctx context.Context, verb string, question []byte) ([]byte, time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+verb, bytes.NewReader(question))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := a.http.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	took := time.Since(began)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", verb, response.Status, answer)
	}
	return answer, took, err
}

// Close ends its connection.
func (a *Asker) Close() { a.http.CloseIdleConnections() }

// StartTLS starts Stratos with the extender over mutual TLS, as a scheduler on the control plane
// asks it, and returns what asks it. The folder takes the certificates.
func (s *Env) StartTLS(ctx context.Context, dir string, args ...string) (*Asker, error) {
	serving, asking := filepath.Join(dir, "serving"), filepath.Join(dir, "asking")
	if err := errors.Join(os.Mkdir(serving, 0o700), os.Mkdir(asking, 0o700)); err != nil {
		return nil, err
	}
	err := errors.Join(s.ControlPlane.WriteServingCertificate(serving, "stratos"),
		s.ControlPlane.WriteClientCertificate(asking, "scheduler"))
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(serving, "ca.crt"))
	if err != nil || !authority.AppendCertsFromPEM(ca) {
		return nil, errors.Join(err, errors.New("no certificate of the authority"))
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(asking, "tls.crt"), filepath.Join(asking, "tls.key"))
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args = append(args, "--cert-dir="+serving, "--client-ca="+filepath.Join(serving, "ca.crt"), "--webhook-port="+port)
	if s.Ours, err = s.StartStratos(ctx, "stratos", s.StratosArgs(args...)...); err != nil {
		return nil, err
	}
	return NewAsker("https://localhost"+s.Ours.Extender[strings.LastIndexByte(s.Ours.Extender, ':'):], authority, pair),
		nil
}

// RequestSeconds is the extender's metric of how long a request took with its way over the network,
// DecisionSeconds without.
const (
	RequestSeconds  = "stratos_extender_request_duration_seconds"
	DecisionSeconds = "stratos_extender_decision_duration_seconds"
)

// Timed are the requests that the extender has counted for a verb in the metric: how many, and how
// many of them took at most so many seconds. bound must be the bound of a bucket of the metric, as
// it is written there.
func (s *Env) Timed(ctx context.Context, metric, verb, bound string) (all, within float64, err error) {
	samples, err := framework.Samples(ctx, s.Ours.Metrics, metric)
	if err != nil || len(samples) == 0 { // no request yet
		return 0, 0, err
	}
	return timed(samples, metric, verb, bound)
}

func timed(samples map[string]float64, name, verb, bound string) (all, within float64, err error) {
	all, counted := samples[fmt.Sprintf(`%s_count{verb=%q}`, name, verb)]
	within, bounded := samples[fmt.Sprintf(`%s_bucket{verb=%q,le=%q}`, name, verb, bound)]
	if !counted || !bounded {
		return 0, 0, fmt.Errorf("there is no metric %s of verb %s with a bucket to %s s", name, verb, bound)
	}
	return all, within, nil
}
