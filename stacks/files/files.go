// Package files holds a folder of text files in memory: read, hashed, written, packed into an
// archive whose bytes depend on nothing but names, contents and the executable bit.
package files

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"
)

// File is one file. Of its mode only the executable bit is known.
type File struct {
	Data       []byte
	Executable bool
}

func (f File) mode() fs.FileMode {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// Files are the files below a folder, by their path from there, with slashes.
type Files map[string]File

// Names returns the paths in order.
func (f Files) Names() []string { return slices.Sorted(maps.Keys(f)) }

// Below returns the files below a folder, by their path from that folder.
func (f Files) Below(folder string) Files {
	below := Files{}
	for name, file := range f {
		if rest, is := strings.CutPrefix(name, folder+"/"); is {
			below[rest] = file
		}
	}
	return below
}

// Put adds the other files below a folder.
func (f Files) Put(folder string, other Files) {
	for name, file := range other {
		f[path.Join(folder, name)] = file
	}
}

// Remove removes the files below a folder.
func (f Files) Remove(folder string) {
	maps.DeleteFunc(f, func(name string, _ File) bool { return strings.HasPrefix(name, folder+"/") })
}

// Folders returns the names of the folders directly below a folder, in order.
func (f Files) Folders(folder string) []string {
	found := map[string]bool{}
	for name := range f.Below(folder) {
		if first, _, is := strings.Cut(name, "/"); is {
			found[first] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Hash is that of golang.org/x/mod/sumdb/dirhash: it begins with h1: and is "" for no files.
func (f Files) Hash() (string, error) {
	if len(f) == 0 {
		return "", nil
	}
	return dirhash.Hash1(f.Names(), func(name string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(f[name].Data)), nil
	})
}

// Read reads all files below a folder. A symbolic link is an error, because csctl follows it in one
// place and not in another; so is what is no file.
func Read(folder string) (Files, error) {
	found := Files{}
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s must be a file: symbolic links and devices are not allowed in a stack", file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		found[filepath.ToSlash(name)] = File{Data: data, Executable: info.Mode()&0o100 != 0}
		return err
	})
	return found, err
}

// WriteNew writes the files below a folder that must not exist or be empty. The folder appears with
// all files or not at all.
func (f Files) WriteNew(folder string) error {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or name another folder", folder)
	}
	folder = filepath.Clean(folder)
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), "."+filepath.Base(folder)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := f.write(work); err != nil {
		return err
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	if err := os.Remove(folder); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Rename(work, folder)
}

func (f Files) write(folder string) error {
	for _, name := range f.Names() {
		to := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, f[name].Data, f[name].mode()); err != nil {
			return err
		}
	}
	return nil
}
