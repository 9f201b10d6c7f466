//! Guests that misbehave, or differ in one thing, for the tests of the host: each example is one component.
