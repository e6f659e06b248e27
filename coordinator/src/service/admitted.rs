//! A service behind the gate: who calls is known before the call arrives.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};

use super::auth::{Caller, Gate, Role};
use crate::sweep::desk;
use crate::sweep::rpc::{Callers, Need};

/// Puts the caller into each request for `inner`.
#[derive(Clone)]
pub(super) struct Admitted<S> {
    inner: S,
    gate: Gate,
}

impl<S> Admitted<S> {
    pub(super) const fn new(inner: S, gate: Gate) -> Self {
        Self { inner, gate }
    }
}

impl<S: NamedService> NamedService for Admitted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Admitted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        // The clone may not be ready; the one that is goes with the call.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let gate = self.gate.clone();
        Box::pin(async move {
            let parts = request.extensions();
            let peer = parts
                .get::<TcpConnectInfo>()
                .and_then(TcpConnectInfo::remote_addr);
            let over_tls = parts.get::<TlsConnectInfo<TcpConnectInfo>>();
            let peer = peer.or_else(|| over_tls.and_then(|info| info.get_ref().remote_addr()));
            let shown = request.headers().get("authorization");
            let shown = shown.map(|value| value.to_str().unwrap_or_default().to_owned());
            match gate
                .know(shown.as_deref(), peer.map(|peer| peer.ip()))
                .await
            {
                Ok(caller) => {
                    request.extensions_mut().insert(caller);
                    inner.call(request).await
                }
                Err(error) => Ok(Status::from(error).into_http()),
            }
        })
    }
}

/// Reads who calls the sweeps.
pub(super) fn callers() -> Callers {
    std::sync::Arc::new(|_, parts, need| {
        let nobody = || Status::internal("nobody was let in");
        let caller = parts.get::<Caller>().ok_or_else(nobody)?;
        caller.must_be(match need {
            Need::Read => Role::Viewer,
            Need::Write => Role::Submitter,
        })?;
        Ok(desk::Caller::from(caller))
    })
}

impl From<&Caller> for desk::Caller {
    fn from(caller: &Caller) -> Self {
        Self {
            tenant: caller.tenant.clone(),
            owner: caller.name.clone(),
            sees_all: caller.is_global,
        }
    }
}
