package engine

import (
	"encoding/json"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/rpc/mcpl"
)

// Initialized begins a session on the connection: the policy of an earlier one is void.
func (e *Engine) Initialized(session mcpl.Session) {
	e.do(func() {
		e.policy.Initialized(session)
		e.turns = turns{}
		e.initialized = true
		e.policyAt = time.Time{}
		if session.MCPL {
			e.policyAt = time.Now().Add(policyPatient)
		}
		e.logWaiting()
	})
}

// UpdatePolicy takes a featureSets/update request; reply is called with the receipt once the new grant is in force and
// before any push under it (SPEC 8.4). False: the engine has ended, reply is never called.
func (e *Engine) UpdatePolicy(params json.RawMessage, reply func(mcpl.Receipt, error)) bool {
	return e.do(func() {
		receipt, err := e.policy.Update(params)
		if e.held != nil {
			receipt.Notes = append(receipt.Notes, "Heartbeats and reminders are not delivered yet: "+e.blocked()+".")
		}
		e.then(func(error) { reply(receipt, err) })
		e.policyChanged()
		if err == nil {
			e.policyAt = time.Time{}
			e.policyInForce()
		}
	})
}

// NoticePolicy takes a featureSets/update notification, which can only narrow (SPEC 8.5).
func (e *Engine) NoticePolicy(params json.RawMessage) {
	e.do(func() {
		e.policy.Notice(params)
		e.o.Log.Warn("featureSets/update came as a Notification, which grants nothing: the host must send it as a Request, with an id (MCPL 0.5, section 6.7)")
		e.policyChanged()
	})
}

func (e *Engine) policyChanged() {
	if e.store == nil {
		return
	}
	blocked := e.policy.Blocked()
	e.record(&journal.Policy{Allowed: blocked == "", Reason: blocked})
	e.logWaiting()
}

// policyInForce lets out what waited for a policy: what was not taken is tried again (SPEC 6.5), and the heartbeat that was
// overdue at the start goes out, or is dropped (SPEC 6.8).
func (e *Engine) policyInForce() {
	if e.store == nil || !e.policy.InForce() {
		return
	}
	e.retryNow()
	if !e.beat.waiting {
		return
	}
	if blocked := e.policy.Blocked(); blocked != "" {
		e.beat.waiting = false
		e.dropBeat(e.beat.due, blocked)
		return
	}
	e.fireBeat(e.beat.due, e.now(), false)
}
