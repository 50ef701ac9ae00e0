package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recipeOf is the recipe of any minor, the newest included.
func recipeOf(t *testing.T, minor string) Recipe {
	t.Helper()
	if minor == newestMinor() {
		return mustRecipe(t)
	}
	r, err := minorRecipe(minor)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestModuleFilesPinOneVersion: a staging module that was left behind at another patch, or another
// minor, would build something that was never released.
func TestModuleFilesPinOneVersion(t *testing.T) {
	minors := Minors()
	if len(minors) < 3 || !slices.IsSorted(minors) || BeforeOldest >= minors[0] {
		t.Errorf("minors %q after %s, want at least three, the newest last", minors, BeforeOldest)
	}
	replaced := regexp.MustCompile(`(?m)^replace (\S+) => (\S+) (v\S+)$`)
	for _, minor := range append(minors, BeforeOldest) {
		t.Run(minor, func(t *testing.T) {
			r := recipeOf(t, minor)
			if !strings.HasPrefix(r.Version, "v"+minor+".") {
				t.Errorf("the file of %s pins %s", minor, r.Version)
			}
			staging := replaced.FindAllStringSubmatch(r.ModuleFile, -1)
			if len(staging) < 30 {
				t.Fatalf("%d staging modules are replaced, want all of about 31", len(staging))
			}
			for _, match := range staging {
				if want := "v0." + strings.TrimPrefix(r.Version, "v1."); match[1] != match[2] || match[3] != want {
					t.Errorf("%q, want %s at %s", match[0], match[1], want)
				}
			}
		})
	}
}

func TestMinorsShareNoFolder(t *testing.T) {
	keys := map[string]string{}
	for _, minor := range append(Minors(), BeforeOldest) {
		key := recipeOf(t, minor).Key()
		if other, taken := keys[key]; taken {
			t.Errorf("%s and %s are both built into %s", other, minor, key)
		}
		keys[key] = minor
	}
}

func TestBuildMinorTakesTheRestFromTheNewest(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("PATH", "")
	for _, minor := range Minors() {
		placeBinaries(t, recipeOf(t, minor), cache)
	}
	newest := filepath.Join(cache, "stratos", mustRecipe(t).Key())
	for _, minor := range append(Minors(), "") {
		t.Run("minor "+minor, func(t *testing.T) {
			dir := newest
			if minor != "" {
				dir = filepath.Join(cache, "stratos", recipeOf(t, minor).Key())
			}
			got, err := BuildMinor(t.Context(), minor, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := binariesIn(dir, got.KubernetesVersion)
			want.Etcd, want.Kubectl = filepath.Join(newest, "etcd"), filepath.Join(newest, "kubectl")
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			for _, file := range []string{got.Etcd, got.APIServer, got.ControllerManager, got.Scheduler, got.Kubectl} {
				if _, err := os.Stat(file); err != nil {
					t.Error(err)
				}
			}
			if minor != "" && !strings.HasPrefix(got.KubernetesVersion, "v"+minor+".") {
				t.Errorf("version %s", got.KubernetesVersion)
			}
		})
	}
}

func TestUnknownMinorIsRefused(t *testing.T) {
	t.Setenv("PATH", "")
	for _, minor := range []string{"1.32", "1.3", "v1.34", "../1.34"} {
		_, err := BuildMinor(t.Context(), minor, nil)
		if !errors.Is(err, ErrNoMinor) || !strings.Contains(err.Error(), Minors()[0]) {
			t.Errorf("BuildMinor(%q): %v, want %v that names those there are", minor, err, ErrNoMinor)
		}
	}
}
