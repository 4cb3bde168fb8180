//! What a client can ask, one method each; the work is in the other files.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ErrorData, GetTaskParams,
    GetTaskResult, Implementation, ListToolsResult, LoggingLevel, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use super::Mcp;

/// The server of one connection.
#[derive(Clone)]
pub struct Server {
    mcp: Mcp,
    /// How urgent a log line has to be for the client of this connection to be told of it, once it said so.
    level: Arc<Mutex<Option<LoggingLevel>>>,
}

impl Server {
    pub(super) fn new(mcp: Mcp) -> Self {
        Self {
            mcp,
            level: Arc::default(),
        }
    }

    /// What the client of a request is to be told of log lines: what it says with the request, or what it said for its
    /// session.
    fn level(&self, cx: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        let of_session = || *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        cx.meta.log_level().or_else(of_session)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_logging()
            .enable_tasks()
            .build();
        let own = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(own)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
        Ok(())
    }

    fn get_tool(&self, _name: &str) -> Option<Tool> {
        None
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.mcp.tools().await;
        let tools = tools.values().map(|entry| self.mcp.listed(entry)).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let level = self.level(&cx);
        self.mcp.call_tool(request, &cx, level).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.mcp.get_task(request, &cx).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.mcp.update_task(request, &cx).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.mcp.cancel_task(request, &cx).await
    }
}
