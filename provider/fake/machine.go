package fake

import (
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// machine is the guest inside one instance.
type machine struct {
	simcloud.Guest
	name   v1alpha1.NodeName
	size   InstanceType
	script script

	// mu guards what follows.
	mu sync.Mutex
	// inFlight counts the API calls of the machine that are in flight; idle is signalled when there is
	// none. A condition and not a lock, because a lock that is waited for stops the clock of a
	// synctest bubble.
	inFlight int
	idle     *sync.Cond
	// life is the current boot; reset by each.
	life life
	// lastSign is when the machine last called the API, for the node controller.
	lastSign time.Time
	// lease is the last one we wrote. Only the lease's worker touches it.
	lease *coordinationv1.Lease
}

// life is what a machine knows of its current boot.
type life struct {
	boot simcloud.Boot
	// on and up as in simcloud.Guest.
	on, up bool
	// known: the Node exists in this boot; created: this boot registered it, so that no older
	// heartbeat is on it. reported: Ready was reported, at readyAt.
	known, created, reported bool
	readyAt                  time.Time
	devices                  bool
	heartbeatDue             time.Time
	// networkDue is when the network writes its condition next; zero for never.
	networkDue time.Time
	// ending: the machine shuts down in order, and its kubelet has a moment to say so.
	ending      bool
	imagesDirty bool
	pods        map[types.UID]*run
	used        corev1.ResourceList
	pulls       map[string]time.Time
	// landed are the images of pulls that are over.
	landed map[string]bool
}

func newMachine(g simcloud.Guest, size InstanceType, cluster v1alpha1.BootstrapCluster) *machine {
	m := &machine{Guest: g, size: size, script: readUserData(g.UserData, cluster)}
	if n := m.script.maxPods; n > 0 {
		m.size.Capacity = maps.Clone(size.Capacity)
		m.size.Capacity[corev1.ResourcePods] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	m.name = m.script.nodeName(g)
	m.idle = sync.NewCond(&m.mu)
	return m
}

// setPower takes over what the cloud says now. It asks under its own lock, so that of two notes
// that overtake each other the later truth stays.
func (m *machine) setPower(p Power) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, ok := p.Guest(m.ID)
	if !ok {
		m.life = life{}
		return
	}
	if g.Ending && m.script.gracefulShutdown && m.life.reported && g.Boot.Number == m.life.boot.Number {
		m.life.ending = true
		return
	}
	if g.Boot.Number != m.life.boot.Number || !g.On {
		m.life = life{
			boot:   g.Boot,
			pods:   map[types.UID]*run{},
			used:   corev1.ResourceList{},
			pulls:  map[string]time.Time{},
			landed: map[string]bool{},
		}
	}
	m.life.on, m.life.up = g.On, g.Up
}

// isAnother reports whether this boot is that of another machine: of another type, or its kubelet
// registers under another name than the one before. It ends what the machine did before.
func (m *machine) isAnother(g simcloud.Guest) bool {
	if m.script.nodeName(g) == m.name && g.Type == m.Type {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life = life{}
	return true
}

// speak runs a report unless the power has gone, or another boot has begun, since the report was
// decided. It returns false when nothing was said.
func (m *machine) speak(bootNumber int, report func() error) (bool, error) {
	m.mu.Lock()
	if !m.life.up || m.life.boot.Number != bootNumber {
		m.mu.Unlock()
		return false, nil
	}
	m.inFlight++
	m.mu.Unlock()
	err := report()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inFlight--; m.inFlight == 0 {
		m.idle.Broadcast()
	}
	if err != nil {
		return false, err
	}
	m.lastSign = time.Now()
	return true, nil
}

// quiet returns when no report is in flight.
func (m *machine) quiet() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.inFlight > 0 {
		m.idle.Wait()
	}
}

// signed is when the machine last called the API.
func (m *machine) signed() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastSign
}

// update changes the life of that boot; of a later one nothing.
func (m *machine) update(bootNumber int, f func(*life)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life.boot.Number == bootNumber {
		f(&m.life)
	}
}

// now returns the current life. Its maps are shared and only read under the lock.
func (m *machine) now() life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}
