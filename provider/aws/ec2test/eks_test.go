package ec2test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestDescribeCluster: EKS answers in JSON, with the name of an error in a header.
func TestDescribeCluster(t *testing.T) {
	t.Parallel()
	signed := strings.Replace(signedBySomebody, "/ec2/", "/eks/", 1)
	for name, tt := range map[string]struct {
		method, path, authorization string
		status                      int
		code                        string
		fails                       Failure
	}{
		"a cluster":                  {path: "/clusters/e2e", status: 200},
		"no such cluster":            {path: "/clusters/none", status: 404, code: "ResourceNotFoundException"},
		"a cluster elsewhere":        {path: "/clusters/elsewhere", status: 404, code: "ResourceNotFoundException"},
		"not signed":                 {path: "/clusters/e2e", authorization: "-", status: 403, code: "MissingAuthenticationTokenException"},
		"signed for another service": {path: "/clusters/e2e", authorization: signedBySomebody, status: 403, code: "MissingAuthenticationTokenException"},
		"a change":                   {method: http.MethodPost, path: "/clusters/e2e", status: 400, code: "InvalidRequestException"},
		"what belongs to a cluster":  {path: "/clusters/e2e/addons", status: 400, code: "InvalidRequestException"},
		"denied": {path: "/clusters/e2e", status: 403, code: "AccessDeniedException",
			fails: Failure{Error: Error{Code: "AccessDeniedException", Status: 403, Message: "not authorized"}}},
		"too often": {path: "/clusters/e2e", status: 429, code: "ThrottlingException",
			fails: Failure{Error: *throttled()}},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(simcloud.New(simcloud.Options{ProviderPrefix: ProviderPrefix}), Options{})
			if tt.fails.Error.Code != "" {
				tt.fails.Action = DescribeCluster
				s.Script(tt.fails)
			}
			method := tt.method
			if method == "" {
				method = http.MethodGet
			}
			request := httptest.NewRequest(method, tt.path, nil)
			request.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
			if tt.authorization == "" {
				tt.authorization = signed
			}
			request.Header.Set("Authorization", tt.authorization)
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, request)
			response := recorder.Result()
			body, _ := io.ReadAll(response.Body)
			if got := response.Header.Get("X-Amzn-Errortype"); response.StatusCode != tt.status || got != tt.code {
				t.Errorf("status %d, error %q, want %d and %q: %s", response.StatusCode, got, tt.status, tt.code, body)
			}
			seen := s.Requests()
			if len(seen) != 1 || seen[0].Action != DescribeCluster || (seen[0].Code == "") != (tt.code == "") {
				t.Errorf("logged %+v", seen)
			}
		})
	}
}

func TestWhatEKSSaysOfACluster(t *testing.T) {
	t.Parallel()
	whole := Cluster{Name: "a", Endpoint: "https://x", CertificateAuthority: "Y2E=", ServiceIPv4: "10.0.0.0/16"}
	six, creating := whole, whole
	six.IPv6, six.ServiceIPv4, six.ServiceIPv6 = true, "", "fd00::/108"
	creating.Status = "CREATING"
	for name, tt := range map[string]struct {
		cluster Cluster
		want    string
	}{
		"of IPv4": {whole, `"certificateAuthority":{"data":"Y2E="},"createdAt":1700000000,"endpoint":"https://x",` +
			`"kubernetesNetworkConfig":{"elasticLoadBalancing":{"enabled":false},"ipFamily":"ipv4","serviceIpv4Cidr":"10.0.0.0/16"},` +
			`"name":"a","status":"ACTIVE","version":"1.37"`},
		"of IPv6": {six, `"certificateAuthority":{"data":"Y2E="},"createdAt":1700000000,"endpoint":"https://x",` +
			`"kubernetesNetworkConfig":{"elasticLoadBalancing":{"enabled":false},"ipFamily":"ipv6","serviceIpv6Cidr":"fd00::/108"},` +
			`"name":"a","status":"ACTIVE","version":"1.37"`},
		"being created": {creating, `"createdAt":1700000000,` +
			`"kubernetesNetworkConfig":{"elasticLoadBalancing":{"enabled":false},"ipFamily":"ipv4","serviceIpv4Cidr":"10.0.0.0/16"},` +
			`"name":"a","status":"CREATING","version":"1.37"`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(clusterInfo(tt.cluster))
			if diff := cmp.Diff(`{"cluster":{"accessConfig":{"authenticationMode":"API_AND_CONFIG_MAP"},`+tt.want+`}}`, string(text)); diff != "" || err != nil {
				t.Errorf("error %v, answer (-want +got):\n%s", err, diff)
			}
		})
	}
}
