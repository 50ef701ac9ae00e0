package lab

import (
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// containerdMetadata is where containerd keeps what it has, in a node container.
const containerdMetadata = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"

// ImagesOnDisk are the names of the images that a stopped node's containerd has, by its own database: nobody can ask it while it does not run.
func (l *Lab) ImagesOnDisk(t *testing.T, container string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "meta.db")
	MustDocker(t, "cp", container+":"+containerdMetadata, file)
	database, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	var names []string
	err = database.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte("v1"))
		for _, key := range []string{"k8s.io", "images"} {
			if bucket != nil {
				bucket = bucket.Bucket([]byte(key))
			}
		}
		if bucket == nil {
			return nil
		}
		return bucket.ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}
