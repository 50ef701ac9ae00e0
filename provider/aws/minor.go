package aws

import (
	"cmp"
	"context"
	"regexp"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/stratos-sh/stratos/provider"
)

// minorHolds is how long the API server has to answer a new minor until images follow it. While a
// control plane is upgraded its servers answer the old and the new one in turn, and each change
// would replace every node.
const minorHolds = 30 * time.Minute

// minors is the cluster's minor version, as images follow it.
type minors struct {
	// ask asks the API server.
	ask func(ctx context.Context) (string, error)

	// mu guards the fields below.
	mu sync.Mutex
	// current is the minor that images follow; empty until the first answer.
	current string
	// next is what the API server has answered since then without interruption; empty where it
	// answers current.
	next  string
	since time.Time
}

// get asks the API server and returns the minor that images follow. before is asked for the minor
// that they followed when this process began, and returns "" where it is unknown.
func (m *minors) get(ctx context.Context, before func() (string, error)) (string, error) {
	answer, err := m.ask(ctx)
	if err != nil {
		return "", err
	}
	known := ""
	if m.unknown() {
		if known, err = before(); err != nil {
			return "", err
		}
	}
	return m.follow(answer, known, time.Now()), nil
}

func (m *minors) unknown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current == ""
}

// follow takes in an answer.
func (m *minors) follow(answer, before string, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == "" {
		m.current = cmp.Or(before, answer)
	}
	switch {
	case answer == m.current:
		m.next = ""
	case answer != m.next:
		m.next, m.since = answer, now
	case now.Sub(m.since) >= minorHolds:
		m.current, m.next = answer, ""
	}
	return m.current
}

// minorInName finds the minor in the names of aliasPattern.
var minorInName = regexp.MustCompile(`^(?:amazon-eks-.*-|bottlerocket-aws-k8s-)([0-9]+\.[0-9]+)-`)

// minorOf returns the minor that an image was made for, "" where its name tells none or the image
// is gone.
func (f *finder) minorOf(ctx context.Context, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	images, err := f.images(ctx, fieldImage, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	switch {
	case provider.IsInvalidConfig(err):
		return "", nil
	case err != nil:
		return "", err
	}
	for n := range images {
		if found := minorInName.FindStringSubmatch(aws.ToString(images[n].Name)); found != nil {
			return found[1], nil
		}
	}
	return "", nil
}
