package cloud

import (
	"github.com/stratos-sh/stratos/provider/kind"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// kindCloud is the Docker daemon that runs the kind cluster, as DOCKER_HOST names it.
func kindCloud(calls *limiter.Calls) (*Cloud, error) {
	docker, err := kind.FromEnvironment()
	if err != nil {
		return nil, err
	}
	cloud := limiter.Wrap(docker, calls)
	return &Cloud{Provider: cloud, Classes: []nodeclass.Kind{nodeclass.KindNodeClasses(cloud)}}, nil
}
