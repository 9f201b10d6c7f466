// Package export_sluicegate_policy_scorer prefers endpoints with small values in one column: 1 / (1 + value), and
// never below a floor. Below 0 is 0.
package export_sluicegate_policy_scorer

import (
	plugin "wit_component/export_sluicegate_policy_plugin"
	view "wit_component/sluicegate_policy_view"
)

// Score gives each candidate its score. Borrowed handles are dropped before it returns.
func Score(request *view.Request, endpoints *view.Endpoints) []float32 {
	defer request.Drop()
	defer endpoints.Drop()
	values := endpoints.Column(plugin.Column, 0)
	scores := make([]float32, len(values))
	for i, value := range values {
		scores[i] = max(plugin.Floor, 1/(1+max(value, 0)))
	}
	return scores
}
