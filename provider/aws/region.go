package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
)

const (
	// mostPerCall bounds the instances of one call that changes them. EC2 allows 1000 ids, and asks
	// for fewer where calls time out.
	mostPerCall = 500
	// mostPerFilter is how many values EC2 allows in one filter.
	mostPerFilter = 200
	// pageSize is the largest page that EC2 gives.
	pageSize = 1000
)

// region is one region of EC2: a client, limits of its own as AWS counts them, and what gathers for
// the next calls.
type region struct {
	name   regionName
	client *ec2.Client
	calls  *limiter.Calls
	index  *index
	size   func(limiter.Operation, int)

	starts, stops, forcedStops, hibernations, terminations *batcher[nothing]
	looks                                                  *batcher[*provider.Instance]
	// launches remembers of which offerings there were none.
	launches *memory
	// quotas are those of the account that are used up.
	quotas  *quotas
	tokens  *tokens
	classes *finder
	// named bounds the instances that the calls of an operation name.
	named map[limiter.Operation]*resources

	// health says whether the region answers.
	health health

	// mu guards tags: the same change for many instances is one call, whatever the change is.
	mu   sync.Mutex
	tags map[string]*batcher[nothing]
}

func newRegion(name regionName, o Options, x *index, minor *minors, images *nodeImages) *region {
	r := &region{
		name: name, calls: o.Calls.Under(limiter.New(limitsOf(o.Limits))), index: x, size: o.BatchSize,
		launches: newMemory(restFirst, restMost), quotas: newQuotas(), tokens: newTokens(),
		tags:  map[string]*batcher[nothing]{},
		named: map[limiter.Operation]*resources{},
	}
	for op, limit := range limitsOf(o.Resources) {
		if limit.Burst > 0 {
			r.named[op] = newResources(limit, time.Now())
		}
	}
	r.client = ec2.NewFromConfig(o.Config, func(e *ec2.Options) {
		e.Region = string(name)
		e.Retryer = retryer()
		e.APIOptions = append(e.APIOptions, limited(r.calls))
	})
	r.starts = r.batcher(limiter.StartInstances, func(ctx context.Context, ids []string) error {
		_, err := r.client.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids})
		return err
	}, provider.InstancePending, provider.InstanceRunning)
	r.stops, r.forcedStops, r.hibernations = r.stopper(false, false), r.stopper(true, false), r.stopper(false, true)
	r.terminations = r.batcher(limiter.TerminateInstances, func(ctx context.Context, ids []string) error {
		_, err := r.client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
		return err
	}, provider.InstanceShuttingDown, provider.InstanceTerminated)
	r.looks = newLooks(r)
	r.classes = &finder{region: r, minor: minor, nodeImages: images, prices: o.Prices}
	return r
}

func (r *region) stopper(force, hibernate bool) *batcher[nothing] {
	return r.batcher(limiter.StopInstances, func(ctx context.Context, ids []string) error {
		in := &ec2.StopInstancesInput{InstanceIds: ids}
		if force {
			in.Force = aws.Bool(true)
		}
		if hibernate {
			in.Hibernate = aws.Bool(true)
		}
		_, err := r.client.StopInstances(ctx, in)
		return err
	}, provider.InstanceStopping, provider.InstanceStopped)
}

// batcher makes calls for many instances. One that EC2 refuses for its state has what was asked for
// when it is in one of the states done.
func (r *region) batcher(op limiter.Operation, call func(context.Context, []string) error,
	done ...provider.InstanceState) *batcher[nothing] {
	bucket := r.named[op]
	m := many{
		call: func(ctx context.Context, ids []string) error {
			bucket.spend(len(ids))
			err := call(ctx, ids)
			if classify(err).means == meansRate {
				bucket.refused(len(ids))
			}
			return err
		},
		offering: r.index.offering,
		refused: func(ctx context.Context, id string, err error) error {
			return r.refused(ctx, op, id, err, func(i *provider.Instance) bool { return slices.Contains(done, i.State) })
		},
		failed: func(err error) error { return subject{operation: string(op)}.typed(err) },
		lone:   newLoneRefusals(),
	}
	return &batcher[nothing]{
		most: mostPerCall,
		room: bucket.room,
		admit: func(ctx context.Context) error {
			if err := bucket.wait(ctx); err != nil {
				return err
			}
			return r.calls.Wait(ctx, op)
		},
		send: func(ctx context.Context, ids []string, report func(string, nothing, error)) (func(), error) {
			return m.send(withAdmission(ctx), ids, report)
		},
		size: func(n int) { r.size(op, n) },
	}
}

// refused words why one instance was refused. EC2 does not say in which state an instance is that
// it refuses for its state, so it is asked. done reports whether the instance is what was asked
// for.
func (r *region) refused(ctx context.Context, op limiter.Operation, id string, err error,
	done func(*provider.Instance) bool) error {
	known, _ := r.index.get(id)
	about := subject{operation: string(op), id: id, kind: known.kind, zone: known.zone}
	if classify(err).means != meansState {
		return about.typed(err)
	}
	instance, lookErr := r.describe(ctx, id)
	switch {
	case provider.IsNotFound(lookErr):
		return lookErr
	case lookErr != nil:
		return about.typed(err)
	case done(instance):
		return nil // another goroutine did it
	}
	state, wantsStopped := instance.State, op == limiter.StartInstances || op == limiter.ModifyInstanceAttribute
	if wantsStopped && state == provider.InstanceStopped {
		// it has stopped since it refused, or this look is older: in both cases it will do so in a moment
		state = provider.InstanceStopping
	}
	return &provider.IncorrectStateError{ID: id, State: state, Op: verb(op)}
}

// verb words an operation for an error.
func verb(op limiter.Operation) string {
	if op == limiter.ModifyInstanceAttribute {
		return "change the type of"
	}
	return strings.ToLower(strings.TrimSuffix(string(op), "Instances"))
}

// tag puts the same tags on all instances that want them at the same time.
func (r *region) tag(ctx context.Context, id string, tags map[string]string) error {
	if len(tags) == 0 {
		return nil
	}
	_, err := r.tagger(tags).do(ctx, id)
	return err
}

func (r *region) tagger(tags map[string]string) *batcher[nothing] {
	key := fmt.Sprintf("%q", tags) // fmt sorts the keys
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.tags[key]; ok {
		return b
	}
	b := r.batcher(limiter.CreateTags, func(ctx context.Context, ids []string) error {
		_, err := r.client.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: tagsOf(tags)})
		return err
	})
	// The values that Stratos changes are a few states; other values do not make this map grow
	// without end.
	if len(r.tags) >= mostTaggers {
		r.tags = map[string]*batcher[nothing]{}
	}
	r.tags[key] = b
	return b
}

// mostTaggers bounds how many different changes of tags are gathered at a time.
const mostTaggers = 64

// list returns the region's instances that carry all the tags.
func (r *region) list(ctx context.Context, tags map[string]string) ([]*provider.Instance, error) {
	in := &ec2.DescribeInstancesInput{MaxResults: aws.Int32(pageSize)}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		in.Filters = append(in.Filters, types.Filter{Name: aws.String("tag:" + key), Values: []string{literal(tags[key])}})
	}
	instances, err := r.read(ctx, in)
	if err != nil {
		return nil, err
	}
	r.index.prune(r.name, time.Now())
	r.tokens.prune(time.Now())
	return slices.DeleteFunc(instances, func(i *provider.Instance) bool {
		for key, value := range tags {
			if has, ok := i.Tags[key]; !ok || has != value {
				return true
			}
		}
		return false
	}), nil
}

// literal has a filter take the wildcards in a value for what they are.
func literal(value string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(value)
}

// read reads all pages, and notes what they tell. A page that fails fails the whole.
func (r *region) read(ctx context.Context, in *ec2.DescribeInstancesInput) ([]*provider.Instance, error) {
	var out []*provider.Instance
	pages := ec2.NewDescribeInstancesPaginator(r.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, subject{operation: string(limiter.DescribeInstances)}.typed(err)
		}
		for _, reservation := range page.Reservations {
			for n := range reservation.Instances {
				out = append(out, r.note(&reservation.Instances[n]))
			}
		}
	}
	return out, nil
}

// note converts an instance and remembers what it is.
func (r *region) note(i *types.Instance) *provider.Instance {
	out := convert(i)
	out.Region = string(r.name)
	r.index.put(out.ID, traits{
		region: r.name, kind: out.Type, zone: out.Zone, seen: time.Now(), gone: out.State == provider.InstanceTerminated,
		hibernates: i.HibernationOptions != nil && aws.ToBool(i.HibernationOptions.Configured),
	})
	return out
}
