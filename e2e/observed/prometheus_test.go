package observed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// hang bounds what is waited for. The slowest alert needs 5 minutes in a state and more.
const hang = 20 * time.Minute

// prometheus is one that scrapes each second and evaluates the chart's rules as often.
type prometheus struct{ url string }

// startPrometheus starts the program that STRATOS_PROMETHEUS names, which scrapes the addresses.
func startPrometheus(t *testing.T, addresses ...string) *prometheus {
	t.Helper()
	program := os.Getenv("STRATOS_PROMETHEUS")
	if program == "" {
		t.Fatal("STRATOS_PROMETHEUS names no program: make observe-test builds it")
	}
	dir := t.TempDir()
	listen, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "rules.yml"), chartRules(t))
	write(t, filepath.Join(dir, "prometheus.yml"), configuration(addresses))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("Prometheus:\n%s", text)
		}
	})
	p := &prometheus{url: "http://" + listen}
	await(t, "Prometheus", func(ctx context.Context) (bool, error) { return p.get(ctx, "/-/ready", nil) == nil, nil })
	return p
}

func write(t *testing.T, file string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// configuration gives each target the labels that a ServiceMonitor gives it, and the cluster's.
func configuration(addresses []string) any {
	var targets []any
	for i, address := range addresses {
		targets = append(targets, map[string]any{
			"targets": []string{strings.TrimPrefix(address, "http://")},
			"labels": map[string]string{"cluster": "e2e", "namespace": framework.Namespace,
				"pod": fmt.Sprintf("stratos-%d", i)},
		})
	}
	return map[string]any{
		"global":         map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{"rules.yml"},
		"scrape_configs": []any{map[string]any{"job_name": "stratos", "static_configs": targets}},
	}
}

// get asks the API, and reads the data of the answer into the value.
func (p *prometheus) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || into == nil && response.StatusCode == http.StatusOK {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return errors.Join(json.Unmarshal(body, into))
}

// hasData reports whether the query has a result now.
func (p *prometheus) hasData(ctx context.Context, query string) (bool, error) {
	var answer struct {
		Data struct {
			Result []json.RawMessage `json:"result"`
		} `json:"data"`
	}
	err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(query), &answer)
	return len(answer.Data.Result) > 0, err
}

// isFiring reports whether the alert fires now with the labels.
func (p *prometheus) isFiring(ctx context.Context, name string, labels map[string]string) (bool, error) {
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string `json:"labels"`
				State  string            `json:"state"`
			} `json:"alerts"`
		} `json:"data"`
	}
	if err := p.get(ctx, "/api/v1/alerts", &answer); err != nil {
		return false, err
	}
	for _, a := range answer.Data.Alerts {
		same := a.Labels["alertname"] == name && a.State == "firing"
		for key, value := range labels {
			same = same && a.Labels[key] == value
		}
		if same {
			return true, nil
		}
	}
	return false, nil
}

// await waits until it is done.
func await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := framework.Until(t.Context(), hang, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// chartRules are the groups of rules that the chart renders of the values observe.
func chartRules(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../charts/testdata/rendered/observe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object struct {
			Kind string         `json:"kind"`
			Spec map[string]any `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind == "PrometheusRule" {
			return object.Spec
		}
	}
	t.Fatal("the chart renders no PrometheusRule")
	return nil
}
