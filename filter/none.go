package filter

// None is the policy of tables without filters: whoever writes a table
// compares its policy with None and writes no filter block. As a policy it
// makes empty filters, under the name "none", and rules out nothing.
var None Policy = nonePolicy{}

type nonePolicy struct{}

func (nonePolicy) Name() string                               { return "none" }
func (nonePolicy) CreateFilter(dst []byte, _ [][]byte) []byte { return dst }
func (nonePolicy) KeyMayMatch(_, _ []byte) bool               { return true }
