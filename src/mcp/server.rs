//! What a client can ask, one method each; the work is in the other files.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, ConstString, CustomRequest, CustomResult, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams, GetSkillResult,
    GetTaskParams, GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListSkillsResult, ListToolsResult, LoggingLevel, PaginatedRequestParams,
    ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestMethod,
    SetLevelRequestParams, SubscribeRequestMethod, SubscribeRequestParams, SubscriptionFilter,
    Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};

use super::Mcp;
use super::changes::Watched;
use super::client::Client;
use super::page::{LIST_TTL_MS, page};
use crate::registry::McpRole;

/// The server of one connection.
#[derive(Clone)]
pub(super) struct Server {
    mcp: Mcp,
    /// How urgent a log line has to be for the client of this connection to be told of it, once it said so.
    level: Arc<Mutex<Option<LoggingLevel>>>,
    /// What the client of this connection is told of.
    watched: Arc<Watched>,
}

impl Server {
    pub(super) fn new(mcp: Mcp) -> Self {
        Self {
            mcp,
            level: Arc::default(),
            watched: Arc::default(),
        }
    }

    /// What the client of a request is to be told of log lines: what it says with the request, or what it said for its
    /// session.
    fn level(&self, cx: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        let of_session = || *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        cx.meta.log_level().or_else(of_session)
    }
}

/// What clients of every revision can ask. A request whose parameters have the wrong form is none of them to the SDK.
const METHODS: [&str; 16] = [
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/directory/read",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "skills/get",
    "skills/list",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// Refuses a method that only the revisions with sessions have.
fn of_sessions<M: ConstString>(
    mcp: &Mcp,
    cx: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    match Client::of(mcp, cx).is_stateless() {
        true => Err(ErrorData::method_not_found::<M>()),
        false => Ok(()),
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_skills_with_directory_read()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let own = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(own)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        of_sessions::<SetLevelRequestMethod>(&self.mcp, &cx)?;
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
        Ok(())
    }

    /// By it the fields of the head that repeat arguments are checked before a call is one.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.mcp.known_tool(name)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.mcp.entries(McpRole::Tool).await;
        let page_size = self.mcp.settings().page_size;
        let page = page("tools/list", tools, request.as_ref(), page_size)?;
        let tools = page.items.iter().map(|entry| self.mcp.listed(entry));
        let mut result = ListToolsResult::with_all_items(tools.collect()).with_ttl_ms(LIST_TTL_MS);
        result.next_cursor = page.next_cursor;
        Ok(result)
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

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.mcp.list_prompts(request).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let level = self.level(&cx);
        self.mcp.get_prompt(request, &cx, level).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.mcp.complete(request, &cx).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.mcp.list_resources(request, &cx).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.mcp.list_resource_templates(request).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let level = self.level(&cx);
        self.mcp.read_resource(request, &cx, level).await
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        self.mcp.list_skills(request.as_ref())
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.mcp.get_skill(&request)
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        self.mcp.read_skill_folder(&request)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if METHODS.contains(&method.as_str()) {
            let message = format!("params: expected those of {method}");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        self.watched.begin(&self.mcp, cx.peer);
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        of_sessions::<SubscribeRequestMethod>(&self.mcp, &cx)?;
        let client = Client::of(&self.mcp, &cx);
        self.watched
            .subscribe(&self.mcp, &client, request.uri)
            .await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        of_sessions::<UnsubscribeRequestMethod>(&self.mcp, &cx)?;
        self.watched.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(self.mcp.accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.mcp.listen(context).await
    }
}
