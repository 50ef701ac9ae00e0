package ec2test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

func (a *testAccount) retype(id, kind string, change ...func(*ec2.ModifyInstanceAttributeInput)) error {
	in := &ec2.ModifyInstanceAttributeInput{
		InstanceId: aws.String(id), InstanceType: &types.AttributeValue{Value: aws.String(kind)},
	}
	for _, f := range change {
		f(in)
	}
	_, err := a.client.ModifyInstanceAttribute(a.t.Context(), in)
	return err
}

func dryRun(in *ec2.ModifyInstanceAttributeInput) { in.DryRun = aws.Bool(true) }

// TestAnotherType: reads show it after their lag, and the next start is one of the new type: for
// the zone's room, and for the machine.
func TestAnotherType(t *testing.T) {
	t.Parallel()
	so := simcloud.Options{
		Times:    simcloud.Times{Lag: 5 * time.Second},
		Capacity: []simcloud.Capacity{{Zone: "us-east-1a", Type: "m5.xlarge", Count: 1}},
	}
	inAccount(t, so, Options{}, func(t *testing.T, a *testAccount) {
		ids := a.standby(2)
		a.after(time.Minute)
		if err := a.retype(ids[0], "m5.xlarge", dryRun); codeOf(t, err) != codeDryRun {
			t.Errorf("dry run: %v", err)
		}
		for _, id := range []string{ids[0], ids[0], ids[1]} { // twice the same has no effect
			if err := a.retype(id, "m5.xlarge"); err != nil {
				t.Fatal(err)
			}
		}
		if kind := a.get(ids[0]).InstanceType; kind != "m5.large" {
			t.Errorf("a read at once shows %s", kind)
		}
		a.after(5 * time.Second)
		if kind := a.get(ids[0]).InstanceType; kind != "m5.xlarge" {
			t.Errorf("a read after the lag shows %s", kind)
		}
		if err := a.start(ids[0]); err != nil {
			t.Error(err)
		}
		if code := codeOf(t, a.start(ids[1])); code != codeCapacity {
			t.Errorf("one more than the zone has room for: %q", code)
		}
		if err := a.retype(ids[1], "m5.large"); err != nil {
			t.Fatal(err)
		}
		if err := a.start(ids[1]); err != nil {
			t.Errorf("start as the type of before: %v", err)
		}
		if g, _ := a.sim.Guest(v1alpha1.InstanceID(ids[0])); g.Type != "m5.xlarge" {
			t.Errorf("the machine is %s", g.Type)
		}
	})
}

// TestTypesThatAnInstanceCannotBecome: each refusal of the change has EC2's code, and changes
// nothing.
func TestTypesThatAnInstanceCannotBecome(t *testing.T) {
	t.Parallel()
	const id = "i-0123456789abcdef0"
	for name, c := range map[string]struct {
		id, kind    string
		hibernates  bool
		interfaces  int
		code, words string
	}{
		"unknown instance":     {id: id, kind: "m5.xlarge", code: codeNotFound, words: id},
		"malformed id":         {id: "i-x", kind: "m5.xlarge", code: codeMalformed, words: "i-x"},
		"unknown type":         {kind: "m5.huge", code: codeAttribute, words: "Invalid value 'm5.huge' for InstanceType."},
		"no type":              {kind: "", code: codeCombination, words: "No attributes specified"},
		"another architecture": {kind: "m7g.large", code: codeAttribute, words: "from m5.large to m7g.large is not allowed"},
		"too many interfaces": {kind: "m5.xlarge", interfaces: 4, code: codeAttachments,
			words: "Interface count 5 exceeds the limit for m5.xlarge"},
		"hibernation": {kind: "m5.xlarge", hibernates: true, code: codeUnsupported, words: "hibernation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
				own := a.standby(1)[0]
				a.sim.Write(func(*simcloud.Book) {
					d := a.server.details[v1alpha1.InstanceID(own)]
					d.hibernation, d.interfaces = c.hibernates, c.interfaces
					a.server.details[v1alpha1.InstanceID(own)] = d
				})
				target := c.id
				if target == "" {
					target = own
				}
				err := a.retype(target, c.kind)
				if codeOf(t, err) != c.code || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v, want code %s and %q", err, c.code, c.words)
				}
				if kind := a.get(own).InstanceType; kind != "m5.large" {
					t.Errorf("the instance is %s", kind)
				}
			})
		})
	}
}

func TestTheTypeOfOneThatIsNotStopped(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		id := a.run(1, nil)[0]
		for range 2 { // pending, and running
			err := a.retype(id, "m5.large")
			if codeOf(t, err) != codeState || !strings.Contains(err.Error(),
				"The instance '"+id+"' is not in the 'stopped' state.") {
				t.Errorf("%s: %v", a.get(id).State.Name, err)
			}
			a.after(time.Minute)
		}
	})
}

// TestStartsAsATypeThatTheImageOrTheZoneLacks: the change is accepted, the start tells.
func TestStartsAsATypeThatTheImageOrTheZoneLacks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		image func(*Image)
		kind  func(*Properties)
		code  string
		words string
	}{
		"all is there": {},
		"no ENA": {func(i *Image) { i.NoENA = true }, func(*Properties) {}, codeCombination,
			"Ensure that your instance 'i-"},
		"UEFI":    {func(i *Image) { i.BootMode = bootUEFI }, biosOnly, codeNoOffering, "not supported"},
		"BIOS":    {func(i *Image) { i.BootMode = bootBIOS }, uefiOnly, codeNoOffering, "not supported"},
		"no zone": {kind: func(p *Properties) { p.Zones = []string{"us-east-1b"} }, code: codeNoOffering, words: "us-east-1b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account, types := DefaultAccount(), simcloud.New(simcloud.Options{})
			if c.image != nil {
				c.image(account.image(testImage))
			}
			small, _ := types.InstanceType("m5.large")
			large, _ := types.InstanceType("m5.xlarge")
			first, other := PropertiesOf(small), PropertiesOf(large)
			first.ENA = "supported"
			if c.kind != nil {
				c.kind(&other)
			}
			o := Options{Account: account, Types: map[string]Properties{"m5.large": first, "m5.xlarge": other}}
			inAccount(t, simcloud.Options{}, o, func(t *testing.T, a *testAccount) {
				id := a.standby(1)[0]
				if err := a.retype(id, "m5.xlarge"); err != nil {
					t.Fatal(err)
				}
				err := a.start(id)
				if codeOf(t, err) != c.code || err != nil && !strings.Contains(err.Error(), c.words) {
					t.Errorf("start: %v, want code %q and %q", err, c.code, c.words)
				}
			})
		})
	}
}

// TestChangesOfTypesAreLimited as AWS publishes for calls that change something.
func TestChangesOfTypesAreLimited(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		id := a.standby(1)[0]
		burst := func() int {
			for n := range 1000 {
				if err := a.retype(id, "m5.xlarge"); err != nil {
					if code := codeOf(t, err); code != codeThrottled {
						t.Error(code)
					}
					return n
				}
			}
			return 1000
		}
		at := []int{burst()}
		a.after(2 * time.Second)
		if diff := cmp.Diff([]int{50, 10}, append(at, burst())); diff != "" {
			t.Errorf("calls at once, and two seconds later (-published +got):\n%s", diff)
		}
	})
}

// TestFaultsOfChangesOfTypes: each is answered with EC2's code; one whose answer is lost has its
// effect.
func TestFaultsOfChangesOfTypes(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		id := a.standby(1)[0]
		for kind, code := range map[simcloud.FaultKind]string{
			simcloud.FaultUnauthorized: codeUnauthorized, simcloud.FaultRateLimit: codeThrottled,
			simcloud.FaultInvalidConfig: codeInvalid,
		} {
			a.arm(simcloud.Fault{Kind: kind, Op: simcloud.OpChangeType, Count: 1})
			if err := a.retype(id, "m5.xlarge"); codeOf(t, err) != code {
				t.Errorf("%s: %v, want %s", kind, err, code)
			}
		}
		a.server.Script(Failure{Action: ModifyInstanceAttribute, Count: 1, Error: Error{Code: "OperationNotPermitted"}})
		if err := a.retype(id, "m5.xlarge"); codeOf(t, err) != "OperationNotPermitted" {
			t.Errorf("a scripted refusal: %v", err)
		}
		if kind := a.get(id).InstanceType; kind != "m5.large" {
			t.Errorf("a refused change made it %s", kind)
		}
		a.arm(simcloud.Fault{Kind: simcloud.FaultLostAnswer, Op: simcloud.OpChangeType, Count: 1})
		if err := a.retype(id, "m5.xlarge"); err == nil {
			t.Error("the answer arrived")
		}
		if kind := a.get(id).InstanceType; kind != "m5.xlarge" {
			t.Errorf("after the lost answer it is %s", kind)
		}
	})
}

// TestAPolicyForTheTypeAlone: it is bound to tags and to the attribute. Without the attribute's key
// nothing is allowed.
func TestAPolicyForTheTypeAlone(t *testing.T) {
	t.Parallel()
	statement := func(attribute string) *Policy {
		return &Policy{Statement: []Statement{{
			Action: texts{"ec2:ModifyInstanceAttribute"}, Resource: texts{"*"},
			Condition: map[string]map[string]string{"StringEquals": {"ec2:Attribute": attribute, "aws:ResourceTag/team": "a"}},
		}}}
	}
	noKey := statement("InstanceType")
	noKey.NoAttributeKey = true
	for name, c := range map[string]struct {
		policy *Policy
		team   string
		code   string
	}{
		"allowed":           {statement("InstanceType"), "a", ""},
		"another tag":       {statement("InstanceType"), "b", codeUnauthorized},
		"another attribute": {statement("UserData"), "a", codeUnauthorized},
		"no key":            {noKey, "a", codeUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
				id := a.run(1, map[string]string{"team": c.team})[0]
				a.after(time.Minute)
				if _, err := a.client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}); err != nil {
					t.Fatal(err)
				}
				a.after(time.Minute)
				a.server.SetPolicy(c.policy)
				if err := a.retype(id, "m5.xlarge"); codeOf(t, err) != c.code {
					t.Errorf("%v, want code %q", err, c.code)
				}
			})
		})
	}
}
