package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
)

// marksAtOnce bounds the tags that one sweep writes on instances of an earlier version: a sweep is
// one call for all pools, and stays short.
const marksAtOnce = 20

// Owner tells this cluster's instances from all others.
type Owner struct {
	// Cluster is the cluster's name, uid the UID of its namespace kube-system: two clusters may have
	// one name.
	Cluster, UID string
}

// Tags are those that say whose an instance of the pool is.
func (o Owner) Tags(pool v1alpha1.PoolName) map[string]string {
	return map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: o.Cluster, v1alpha1.TagClusterUID: o.UID,
		v1alpha1.LabelPool: string(pool),
	}
}

// Owns reports whether the instance's tags say that it is one of this cluster's pools.
func (o Owner) Owns(i *provider.Instance) bool {
	missing, ours := o.missingTags(i.Tags, v1alpha1.PoolName(i.Tags[v1alpha1.LabelPool]))
	return ours && len(missing) == 0 && i.Tags[v1alpha1.LabelPool] != ""
}

// missingTags are the tags that an instance of the pool lacks. It is false where they name another
// owner: then it is not ours.
func (o Owner) missingTags(tags map[string]string, pool v1alpha1.PoolName) (map[string]string, bool) {
	missing := map[string]string{}
	for key, want := range o.Tags(pool) {
		switch tags[key] {
		case want:
		case "":
			missing[key] = want
		default:
			return nil, false
		}
	}
	return missing, true
}

// LaunchedFor is the UID of the pool that the instance was launched for; "" where its tags do not
// tell.
func LaunchedFor(tags map[string]string) string {
	_, uid, _ := strings.Cut(tags[TagLaunch], ".")
	return uid
}

// claims reports whether the pool claims an instance that carries no cluster's UID: it was launched
// for the pool, or carries the pool's name where no tag says what launched it.
func claims(pool *v1alpha1.NodePool, tags map[string]string) bool {
	if uid := LaunchedFor(tags); uid != "" {
		return uid == string(pool.UID)
	}
	return tags[v1alpha1.LabelPool] == pool.Name
}

// Foreign reports whether an instance that carries the cluster's name, and the pool's, is another
// cluster's.
func (o Owner) Foreign(i *provider.Instance, pool *v1alpha1.NodePool) bool {
	uid := i.Tags[v1alpha1.TagClusterUID]
	return uid != o.UID && (uid != "" || !claims(pool, i.Tags))
}

// ours parts a list of what carries this cluster's name. What has another cluster's UID, or none
// and nothing here claims it, is another's. What is claimed and has none, from an earlier version,
// gets it.
func (s *Sweep) ours(
	ctx context.Context, list []*provider.Instance, asked time.Time,
) (mine []*provider.Instance, theirs map[v1alpha1.PoolName]others, err error) {
	var bare []*provider.Instance
	pools := sync.OnceValues(func() ([]v1alpha1.NodePool, error) { // most sweeps show no instance that needs them
		list := &v1alpha1.NodePoolList{}
		err := s.Reader.List(ctx, list)
		return list.Items, err
	})
	theirs = map[v1alpha1.PoolName]others{}
	for _, i := range list {
		claimed := i.Tags[v1alpha1.TagClusterUID] == s.Owner.UID
		if !claimed && i.Tags[v1alpha1.TagClusterUID] == "" {
			if claimed, err = s.claimed(ctx, i, pools); err != nil {
				return nil, nil, err
			}
			if claimed {
				i = withTags(i, map[string]string{v1alpha1.TagClusterUID: s.Owner.UID})
				bare = append(bare, i)
			}
		}
		switch {
		case claimed:
			mine = append(mine, i)
		case i.State != provider.InstanceTerminated:
			pool := v1alpha1.PoolName(i.Tags[v1alpha1.LabelPool])
			theirs[pool] = theirs[pool].with(i)
		}
	}
	s.mark(ctx, bare, asked)
	return mine, theirs, nil
}

// claimed reports whether something of this cluster claims an instance that carries no cluster's
// UID: this process knows it as ours, a Node stands for it, or a pool claims it.
func (s *Sweep) claimed(
	ctx context.Context, i *provider.Instance, pools func() ([]v1alpha1.NodePool, error),
) (bool, error) {
	if _, known := s.Inventory.Get(i.ID); known {
		return true, nil
	}
	nodes := &corev1.NodeList{}
	if err := s.Reader.List(ctx, nodes, client.MatchingFields{IndexManaged: string(i.ID)}); err != nil {
		return false, err
	}
	for k := range nodes.Items {
		if nodes.Items[k].Spec.ProviderID == i.ProviderID {
			return true, nil
		}
	}
	all, err := pools()
	return slices.ContainsFunc(all, func(p v1alpha1.NodePool) bool { return claims(&p, i.Tags) }), err
}

// mark writes the cluster's UID on instances that lack it, a few at each sweep. The first that is
// refused ends it for this sweep, and its pool says why.
func (s *Sweep) mark(ctx context.Context, bare []*provider.Instance, asked time.Time) {
	marked := map[v1alpha1.InstanceID]time.Time{}
	written, refused := 0, false
	for _, i := range bare {
		at, done := s.marked[i.ID]
		switch {
		case i.State == provider.InstanceTerminated || i.State == provider.InstanceShuttingDown:
		case done && asked.Sub(at) < lifecycle.ConsistencyWait:
			marked[i.ID] = at // the cloud's reads lag
		case refused || written == marksAtOnce:
		default:
			tag := map[string]string{v1alpha1.TagClusterUID: s.Owner.UID}
			if err := s.tagger().Write(ctx, i.ID, tag); err != nil {
				refused = true
				s.stray(ctx, Entry{Instance: *i}, "it lacks the tag "+v1alpha1.TagClusterUID+" and cannot be tagged", err, asked)
				continue
			}
			s.Inventory.Accepted(i.ID)
			marked[i.ID] = asked
			written++
		}
	}
	s.marked = marked
	if written > 0 {
		s.Log.Info("wrote the cluster's UID on instances that lacked it", "instances", written)
	}
}

// withTags is a copy of the instance that carries the tags too: who else holds the instance may
// read its tags.
func withTags(i *provider.Instance, tags map[string]string) *provider.Instance {
	out := *i
	if out.Tags = maps.Clone(i.Tags); out.Tags == nil {
		out.Tags = map[string]string{}
	}
	maps.Copy(out.Tags, tags)
	return &out
}

// others are the instances that carry this cluster's name and a pool's, and are not this cluster's.
type others struct {
	count int
	// one is the first of them by id, uid what it carries; "" for none.
	one v1alpha1.InstanceID
	uid string
}

func (o others) with(i *provider.Instance) others {
	if o.count++; o.one == "" || i.ID < o.one {
		o.one, o.uid = i.ID, i.Tags[v1alpha1.TagClusterUID]
	}
	return o
}

func (o others) words() string {
	uid := "no " + v1alpha1.TagClusterUID + ", and no Node or pool of this cluster claims it"
	if o.uid != "" {
		uid = v1alpha1.TagClusterUID + " " + o.uid + " of another cluster"
	}
	more := ""
	if o.count > 1 {
		more = fmt.Sprintf(" (and %d more)", o.count-1)
	}
	return fmt.Sprintf("instance %s%s has this cluster's name and %s", o.one, more, uid)
}

// strangers knows what the last sweep showed of others. It is safe for concurrent use.
type strangers struct {
	// mu guards last.
	mu   sync.Mutex
	last map[v1alpha1.PoolName]others
}

// note takes in what a sweep showed, and returns the pools for which it is news.
func (s *strangers) note(now map[v1alpha1.PoolName]others, log logr.Logger) []v1alpha1.PoolName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var news []v1alpha1.PoolName
	for pool, o := range now {
		if s.last[pool] != o {
			news = append(news, pool)
			log.Info("leaving instances alone that are not this cluster's", "pool", pool, "why", o.words())
		}
	}
	for pool := range s.last {
		if _, ok := now[pool]; !ok {
			news = append(news, pool)
		}
	}
	s.last = now
	return news
}

// DegradedBy is what the pool's condition says of instances that carry its name and are another
// cluster's.
func (s *strangers) DegradedBy(pool v1alpha1.PoolName) (v1alpha1.Reason, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.last[pool]
	if !ok {
		return "", ""
	}
	return v1alpha1.ReasonClusterNameConflict, o.words() +
		": Stratos leaves it alone. Give each cluster its own --cluster-name, or terminate what a former cluster of this name has left"
}
