package aws

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/price"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestWhatAnInstanceOfAClassCosts: the image has a root volume of 20 GiB.
func TestWhatAnInstanceOfAClassCosts(t *testing.T) {
	book, err := price.Parse([]byte("{currency: EUR, instances: {m5.large: 0.1}, volumes: {gp3: 7.3, st1: 0.73}}"))
	if err != nil {
		t.Fatal(err)
	}
	volume := func(device, kind string, size int32) v1alpha1.BlockDeviceMapping {
		m := v1alpha1.BlockDeviceMapping{DeviceName: device, VolumeType: kind}
		if size > 0 {
			m.VolumeSize = &size
		} else {
			m.SnapshotID = "snap-0123456789abcdef0"
		}
		return m
	}
	for name, c := range map[string]struct {
		volumes []v1alpha1.BlockDeviceMapping
		book    *price.Book
		want    *v1alpha1.Price
	}{
		"the image's own volume": {book: book,
			want: &v1alpha1.Price{Currency: "EUR", RunningPerHour: "0.3", StoppedPerHour: "0.2"}},
		"in place of the image's": {[]v1alpha1.BlockDeviceMapping{volume("xvda", "", 50)}, book,
			&v1alpha1.Price{Currency: "EUR", RunningPerHour: "0.6", StoppedPerHour: "0.5"}},
		"in addition to the image's": {[]v1alpha1.BlockDeviceMapping{volume("/dev/xvdb", "st1", 200)}, book,
			&v1alpha1.Price{Currency: "EUR", RunningPerHour: "0.5", StoppedPerHour: "0.4"}},
		"the size of a snapshot": {[]v1alpha1.BlockDeviceMapping{volume("/dev/xvdb", "gp3", 0)}, book, nil},
		"a type without a price": {[]v1alpha1.BlockDeviceMapping{volume("/dev/xvdb", "io2", 50)}, book, nil},
		"no prices":              {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, simcloud.Options{})
			class := class()
			class.Spec.BlockDeviceMappings = c.volumes
			found, err := r.cloud(t, func(o *Options) { o.Prices = c.book }).ResolveNodeClass(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, found.Price); diff != "" {
				t.Errorf("price (-want +got):\n%s", diff)
			}
		})
	}
}
