package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

const (
	// maxAnswer bounds what the client reads: the full call log is the largest, about 25 MiB.
	maxAnswer = 64 << 20
	// clientTimeout ends calls whose context has no deadline. A FaultLatency longer than this shows as
	// a time-out.
	clientTimeout = 30 * time.Second
)

// Client is a Cloud in another process.
type Client struct {
	endpoint string
	http     *http.Client
}

// NewClient returns a client of the API at endpoint, for example http://127.0.0.1:9446. A missing
// scheme means http.
func NewClient(endpoint string) *Client {
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	transport := &http.Transport{
		// A burst starts hundreds of instances at once; each new connection costs more than the call
		// itself.
		MaxIdleConnsPerHost: 64,
		MaxConnsPerHost:     64,
		IdleConnTimeout:     90 * time.Second,
	}
	return &Client{
		endpoint: strings.TrimRight(endpoint, "/") + "/v1",
		http:     &http.Client{Transport: transport, Timeout: clientTimeout},
	}
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StartInstance implements provider.CloudProvider.
func (c *Client) StartInstance(ctx context.Context, instanceID string) error {
	return c.of(ctx, http.MethodPost, instanceID, "/start", nil, nil)
}

// StopInstance implements provider.CloudProvider.
func (c *Client) StopInstance(ctx context.Context, instanceID string, force bool) error {
	return c.of(ctx, http.MethodPost, instanceID, "/stop", stopBody{Force: force}, nil)
}

// TerminateInstance implements provider.CloudProvider.
func (c *Client) TerminateInstance(ctx context.Context, instanceID string) error {
	return c.of(ctx, http.MethodDelete, instanceID, "", nil, nil)
}

// GetInstanceState implements provider.CloudProvider.
func (c *Client) GetInstanceState(ctx context.Context, instanceID string) (provider.InstanceState, error) {
	body := stateBody{State: provider.InstanceUnknown}
	err := c.of(ctx, http.MethodGet, instanceID, "/state", nil, &body)
	return body.State, err
}

// GetInstance implements provider.CloudProvider.
func (c *Client) GetInstance(ctx context.Context, instanceID string) (*provider.Instance, error) {
	var instance provider.Instance
	if err := c.of(ctx, http.MethodGet, instanceID, "", nil, &instance); err != nil {
		return nil, err
	}
	return &instance, nil
}

// ListInstances implements provider.CloudProvider.
func (c *Client) ListInstances(ctx context.Context, tags map[string]string) ([]*provider.Instance, error) {
	query := url.Values{}
	for key, value := range tags {
		query.Set(tagParameter+key, value)
	}
	var instances []*provider.Instance
	if err := c.do(ctx, http.MethodGet, "/instances?"+query.Encode(), nil, &instances); err != nil {
		return nil, err
	}
	return instances, nil
}

// UpdateInstanceTags implements provider.CloudProvider.
func (c *Client) UpdateInstanceTags(ctx context.Context, instanceID string, tags map[string]string) error {
	return c.of(ctx, http.MethodPatch, instanceID, "/tags", tagsBody{Tags: tags}, nil)
}

// ChangeInstanceType implements provider.TypeChanger.
func (c *Client) ChangeInstanceType(ctx context.Context, instanceID, instanceType string) error {
	return c.of(ctx, http.MethodPut, instanceID, "/type", typeBody{Type: instanceType}, nil)
}

// SharesQuota implements provider.TypeChanger: the cloud has no quotas.
func (c *Client) SharesQuota(string, string) bool { return false }

// LaunchInstance implements API.
func (c *Client) LaunchInstance(ctx context.Context, class *v1alpha1.AWSNodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	var instance provider.Instance
	if err := c.do(ctx, http.MethodPost, "/instances", launchBody{Class: class, Request: req}, &instance); err != nil {
		return nil, err
	}
	return &instance, nil
}

// ResolveNodeClass implements API.
func (c *Client) ResolveNodeClass(ctx context.Context, class *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus,
	error) {
	var status v1alpha1.AWSNodeClassStatus
	err := c.do(ctx, http.MethodPost, "/resolve", classBody{Class: class}, &status)
	return status, err
}

// AddFault implements Control.
func (c *Client) AddFault(ctx context.Context, f Fault) (string, error) {
	var body idBody
	err := c.do(ctx, http.MethodPost, "/faults", f, &body)
	return body.ID, err
}

// Faults implements Control.
func (c *Client) Faults(ctx context.Context) ([]Fault, error) {
	var faults []Fault
	err := c.do(ctx, http.MethodGet, "/faults", nil, &faults)
	return faults, err
}

// ClearFaults implements Control.
func (c *Client) ClearFaults(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "/faults", nil, nil)
}

// SetTimes implements Control.
func (c *Client) SetTimes(ctx context.Context, t Times) error {
	return c.do(ctx, http.MethodPatch, "/times", t, nil)
}

// SetCapacity implements Control.
func (c *Client) SetCapacity(ctx context.Context, limits []Capacity) error {
	return c.do(ctx, http.MethodPut, "/capacity", limits, nil)
}

// SetLimits implements Control.
func (c *Client) SetLimits(ctx context.Context, limits map[Op]Limit) error {
	return c.do(ctx, http.MethodPut, "/limits", limits, nil)
}

// Calls implements Control.
func (c *Client) Calls(ctx context.Context) ([]Call, error) {
	var calls []Call
	err := c.do(ctx, http.MethodGet, "/calls", nil, &calls)
	return calls, err
}

// Snapshot implements Control.
func (c *Client) Snapshot(ctx context.Context) ([]View, error) {
	var views []View
	err := c.do(ctx, http.MethodGet, "/snapshot", nil, &views)
	return views, err
}

// Behind implements Control.
func (c *Client) Behind(ctx context.Context, instanceID string, action Action) error {
	return c.of(ctx, http.MethodPost, instanceID, "/behind", actionBody{Action: action}, nil)
}

// of calls a path below one instance.
func (c *Client) of(ctx context.Context, method, instanceID, path string, body, into any) error {
	// Without an id the path would be that of the list.
	if instanceID == "" {
		return &provider.InstanceNotFoundError{}
	}
	return c.do(ctx, method, "/instances/"+url.PathEscape(instanceID)+path, body, into)
}

// do sends one request. Nothing is retried: the caller decides, and tests count calls.
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("fake cloud: %s %s: %w", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, content)
	if err != nil {
		return fmt.Errorf("fake cloud: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("fake cloud: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	return decode(response, into)
}

func decode(response *http.Response, into any) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("fake cloud: answer cut short: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		var failure errorBody
		if err := json.Unmarshal(text, &failure); err != nil {
			failure.Message = string(text)
		}
		return failure.decode(response.StatusCode)
	}
	if into == nil || response.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("fake cloud: answer: %w", err)
	}
	return nil
}
