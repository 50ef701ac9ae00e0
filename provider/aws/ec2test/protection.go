package ec2test

import (
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// Protection is what an instance is protected from, as its attributes disableApiStop and
// disableApiTermination say.
type Protection struct {
	// Stop also protects from termination.
	Stop, Termination bool
}

// Protect sets the protection of an instance; the zero Protection removes it.
func (s *Server) Protect(id string, p Protection) {
	s.sim.Write(func(*simcloud.Book) { s.guarded[v1alpha1.InstanceID(id)] = p })
}

// stopRefusal is why the instance may not be stopped; nil where it may.
func (s *Server) stopRefusal(id v1alpha1.InstanceID) error {
	if !s.guarded[id].Stop {
		return nil
	}
	return fail(codeNotPermitted, "The instance '%s' may not be stopped. "+
		"Modify its 'disableApiStop' instance attribute and try again.", id)
}

// terminationRefusal is why the instance may not be terminated; nil where it may.
func (s *Server) terminationRefusal(id v1alpha1.InstanceID) error {
	attribute := "disableApiTermination"
	switch p := s.guarded[id]; {
	case p.Stop:
		attribute = "disableApiStop"
	case !p.Termination:
		return nil
	}
	return fail(codeNotPermitted, "The instance '%s' may not be terminated. "+
		"Modify its '%s' instance attribute and try again.", id, attribute)
}

// terminate ends the instances. Where one is protected the call fails, and those in zones without a
// protected one are terminated all the same.
func (s *Server) terminate(b *simcloud.Book, region string, ids []v1alpha1.InstanceID) (answer, error) {
	instances, err := exists(b, region, ids)
	if err != nil {
		return answer{}, err
	}
	var refusal error
	closed := map[string]bool{}
	for _, inst := range instances {
		if inst.State == provider.InstanceShuttingDown || inst.State == provider.InstanceTerminated {
			continue
		}
		if err := s.terminationRefusal(inst.ID); err != nil {
			closed[inst.Zone] = true
			if refusal == nil {
				refusal = err
			}
		}
	}
	var open []*simcloud.Instance
	for _, inst := range instances {
		if !closed[inst.Zone] {
			open = append(open, inst)
		}
	}
	done, err := s.changeAll(open, func(inst *simcloud.Instance) error {
		b.Terminate(inst)
		return nil
	})
	if refusal != nil {
		return answer{}, refusal
	}
	return done, err
}
