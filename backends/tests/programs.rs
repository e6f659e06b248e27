//! Every program that serves as a text model keeps the promises of the contract.

use skillopt_backends::conformance::programs;
use skillopt_backends::conformance_of_a_program;

conformance_of_a_program!(claude, programs::CLAUDE);
conformance_of_a_program!(codex, programs::CODEX);
conformance_of_a_program!(copilot, programs::COPILOT);
conformance_of_a_program!(cursor, programs::CURSOR);
conformance_of_a_program!(opencode, programs::OPENCODE);
conformance_of_a_program!(pi, programs::PI);
