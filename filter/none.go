package filter

// None is the policy of tables without filters. Table writers compare their policy with None and then write no filter
// block. As a policy it makes empty filters under the name "none" that rule nothing out.
var None Policy = nonePolicy{}

type nonePolicy struct{}

func (nonePolicy) Name() string                               { return "none" }
func (nonePolicy) CreateFilter(dst []byte, _ [][]byte) []byte { return dst }
func (nonePolicy) KeyMayMatch(_, _ []byte) bool               { return true }
