package settings

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

type policy interface{ Name() string }

type plain struct{ bits int }

func (p plain) Name() string { return "plain" }

// several is a policy whose values cannot be compared with ==.
type several []policy

func (s several) Name() string { return "several" }

// hooked has a function, which can be compared with nothing but itself.
type hooked struct{ f func() }

func (h hooked) Name() string { panic("no code of a setting is called") }

type group struct {
	Size   int64
	Policy policy
	Many   []policy
}

type options struct {
	Mode  fs.FileMode
	First group
	Other group
	Err   error
	Call  func()
	Names map[string]int
	At    *int
	Few   [2]float64
}

func TestChangedFieldsAreNamed(t *testing.T) {
	f, n := func() {}, 1
	base := options{
		Mode: 1, First: group{Size: 1, Policy: several{plain{1}, hooked{f}}, Many: []policy{hooked{f}}}, Call: f,
		Names: map[string]int{"a": 1}, At: &n, Err: errors.ErrUnsupported,
	}
	for _, c := range []struct {
		name   string
		change func(*options)
		want   []string
	}{
		{"nothing", func(*options) {}, nil},
		{"a copy of a slice", func(o *options) { o.First.Many = append([]policy(nil), o.First.Many...) }, nil},
		{"an equal list of policies", func(o *options) { o.First.Policy = several{plain{1}, hooked{f}} }, nil},
		{"a scalar", func(o *options) { o.Mode = 2 }, []string{"Mode"}},
		{"fields of groups", func(o *options) { o.First.Size, o.Other.Size = 2, 2 }, []string{"First.Size", "Other.Size"}},
		{"a policy's value", func(o *options) { o.First.Policy = several{plain{2}, hooked{f}} }, []string{"First.Policy"}},
		{"a policy's type", func(o *options) { o.First.Policy = plain{1} }, []string{"First.Policy"}},
		{"a policy that was nil", func(o *options) { o.Other.Policy = plain{1} }, []string{"Other.Policy"}},
		{"a policy removed", func(o *options) { o.First.Policy = nil }, []string{"First.Policy"}},
		{"an empty list that was nil", func(o *options) { o.Other.Many = []policy{} }, nil},
		{"a list", func(o *options) { o.First.Many = nil }, []string{"First.Many"}},
		{"an element", func(o *options) { o.First.Many = []policy{hooked{nil}} }, []string{"First.Many"}},
		{"a function", func(o *options) { o.Call = nil }, []string{"Call"}},
		{"a map", func(o *options) { o.Names = map[string]int{"a": 1} }, []string{"Names"}},
		{"a pointer", func(o *options) { o.At = new(int) }, []string{"At"}},
		{"an error", func(o *options) { o.Err = fs.ErrExist }, []string{"Err"}},
		{"an array", func(o *options) { o.Few[1] = 1 }, []string{"Few"}},
		{"ignored fields", func(o *options) { o.Other.Size, o.Call, o.First.Size = 7, nil, 7 }, []string{"First.Size"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := base
			c.change(&o)
			var ignored []string
			if c.name == "ignored fields" {
				ignored = []string{"Other.", "Call", "Fir"}
			}
			require.Equal(t, c.want, Changed(base, o, ignored...))
		})
	}
}

func TestCommonNames(t *testing.T) {
	require.Equal(t, []string{"a", "c"}, Common([]string{"a", "b", "c"}, []string{"c", "d", "a"}))
	require.Nil(t, Common([]string{"a"}, nil))
}
