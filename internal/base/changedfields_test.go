package base

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

type namer interface{ Name() string }

type plainNamer struct{ bits int }

func (p plainNamer) Name() string { return "plain" }

// severalNamers is a namer whose values cannot be compared with ==.
type severalNamers []namer

func (s severalNamers) Name() string { return "several" }

// hookedNamer has a function, which can be compared with nothing but itself.
type hookedNamer struct{ f func() }

func (h hookedNamer) Name() string { panic("no code of a setting is called") }

type settingGroup struct {
	Size   int64
	Policy namer
	Many   []namer
}

type settingSet struct {
	Mode  fs.FileMode
	First settingGroup
	Other settingGroup
	Err   error
	Call  func()
	Names map[string]int
	At    *int
	Few   [2]float64
}

func TestChangedFieldsAreNamed(t *testing.T) {
	f, n := func() {}, 1
	base := settingSet{
		Mode: 1, First: settingGroup{Size: 1, Policy: severalNamers{plainNamer{1}, hookedNamer{f}}, Many: []namer{hookedNamer{f}}}, Call: f,
		Names: map[string]int{"a": 1}, At: &n, Err: errors.ErrUnsupported,
	}
	for _, c := range []struct {
		name   string
		change func(*settingSet)
		want   []string
	}{
		{"nothing", func(*settingSet) {}, nil},
		{"a copy of a slice", func(o *settingSet) { o.First.Many = append([]namer(nil), o.First.Many...) }, nil},
		{"an equal list of policies", func(o *settingSet) { o.First.Policy = severalNamers{plainNamer{1}, hookedNamer{f}} }, nil},
		{"a scalar", func(o *settingSet) { o.Mode = 2 }, []string{"Mode"}},
		{"fields of groups", func(o *settingSet) { o.First.Size, o.Other.Size = 2, 2 }, []string{"First.Size", "Other.Size"}},
		{"a policy's value", func(o *settingSet) { o.First.Policy = severalNamers{plainNamer{2}, hookedNamer{f}} }, []string{"First.Policy"}},
		{"a policy's type", func(o *settingSet) { o.First.Policy = plainNamer{1} }, []string{"First.Policy"}},
		{"a policy that was nil", func(o *settingSet) { o.Other.Policy = plainNamer{1} }, []string{"Other.Policy"}},
		{"a policy removed", func(o *settingSet) { o.First.Policy = nil }, []string{"First.Policy"}},
		{"an empty list that was nil", func(o *settingSet) { o.Other.Many = []namer{} }, nil},
		{"a list", func(o *settingSet) { o.First.Many = nil }, []string{"First.Many"}},
		{"an element", func(o *settingSet) { o.First.Many = []namer{hookedNamer{nil}} }, []string{"First.Many"}},
		{"a function", func(o *settingSet) { o.Call = nil }, []string{"Call"}},
		{"a map", func(o *settingSet) { o.Names = map[string]int{"a": 1} }, []string{"Names"}},
		{"a pointer", func(o *settingSet) { o.At = new(int) }, []string{"At"}},
		{"an error", func(o *settingSet) { o.Err = fs.ErrExist }, []string{"Err"}},
		{"an array", func(o *settingSet) { o.Few[1] = 1 }, []string{"Few"}},
		{"ignored fields", func(o *settingSet) { o.Other.Size, o.Call, o.First.Size = 7, nil, 7 }, []string{"First.Size"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := base
			c.change(&o)
			var ignored []string
			if c.name == "ignored fields" {
				ignored = []string{"Other.", "Call", "Fir"}
			}
			require.Equal(t, c.want, ChangedFields(base, o, ignored...))
		})
	}
}
